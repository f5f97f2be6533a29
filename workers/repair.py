"""A repair worker's process: one DEALER socket to the broker around a WorkerCore, one thread, one loop.

It says ready, answers what it is sent, and beats from this very loop, so that a heartbeat proves that work moves and
not only that a process lives. When the broker is silent it connects anew, with backoff, and says ready and which
sessions it holds: a broker that restarted knows nobody.

Limits: what a message means is core.py's matter.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import zmq
from tokseam.broker import protocol
from tokseam.broker.protocol import Buffer, Envelope, WireError
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

from .core import Limits, WorkerCore
from .pinning import parse_list

log = logging.getLogger("tokseam.worker")

#: Requests taken at a time: enough to hide the way to the broker and back, few enough to leave the rest placeable.
CREDITS = 8
#: Seconds before the first new try to reach a silent broker, and at most.
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 2.0
#: Sessions told in one message after a reconnect: at the longest ids a megabyte and a half.
SESSIONS_PER_MESSAGE = 4096
#: Milliseconds that a reply may wait for room in the socket before the broker counts as gone.
SEND_MS = 2000
#: Milliseconds to wait, when leaving, for requests that the broker sent before it knew.
LEAVE_MS = 50
#: Milliseconds to deliver what is left when closing.
LINGER_MS = 500


@dataclass(slots=True)
class Settings:
    """What a worker is started with."""

    endpoint: str
    name: str
    heartbeat_s: float = 1.0
    misses: int = 4
    credits: int = CREDITS
    credit_bytes: int = 2 * protocol.MESSAGE_MAX_BYTES
    #: Cores for ZeroMQ's I/O thread, which would otherwise fight with the work for the one that this process is on.
    io_cpus: tuple[int, ...] = ()


class Shell:
    """Socket, clock and signals around one WorkerCore. Owned and used by one thread."""

    def __init__(self, core: WorkerCore, settings: Settings) -> None:
        self.core = core
        self.settings = settings
        self._context = zmq.Context()
        for cpu in settings.io_cpus:
            self._context.set(zmq.THREAD_AFFINITY_CPU_ADD, cpu)
        #: Watches the socket, and the pipe that a signal writes to.
        self._poller = zmq.Poller()
        #: None between two connections.
        self._socket: zmq.Socket[bytes] | None = None
        self._last_heard = 0.0
        self._last_beat = 0.0
        self._backoff_s = BACKOFF_MIN_S
        #: Whether the counters moved since they were last told.
        self._counted = False
        #: Set by SIGTERM or the broker's drain: finish what is here, say goodbye, end.
        self._stopping = False
        #: Set by the broker's drain: it is going away itself, so no goodbye.
        self._drained = False

    def run(self) -> None:
        """Serve until told to stop."""
        signal.signal(signal.SIGTERM, self._on_signal)
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer)
        self._poller.register(wake_reader, zmq.POLLIN)
        self._connect()
        try:
            while not self._stopping:
                self._turn()
            if not self._drained:
                self._leave()
        finally:
            if self._socket is not None:
                self._socket.close(LINGER_MS)
            self._context.term()

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _connect(self) -> None:
        made = self._context.socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, LINGER_MS)
        made.setsockopt(zmq.IMMEDIATE, 1)
        made.setsockopt(zmq.SNDTIMEO, SEND_MS)
        made.connect(self.settings.endpoint)
        self._poller.register(made, zmq.POLLIN)
        self._socket = made
        self._last_heard = self._last_beat = time.monotonic()
        settings = self.settings
        self._send(
            Envelope(
                "ready",
                name=settings.name,
                pid=os.getpid(),
                credits=settings.credits,
                credit_bytes=settings.credit_bytes,
                tokenizers=self.core.describe(),
            )
        )
        keys = [list(key) for key in self.core.sessions]
        for first in range(0, len(keys), SESSIONS_PER_MESSAGE):
            self._send(Envelope("sessions", sessions=keys[first : first + SESSIONS_PER_MESSAGE]))

    def _reconnect(self) -> None:
        log.info("the broker is silent; connecting anew")
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._socket.close(0)
            self._socket = None
        time.sleep(self._backoff_s * random.uniform(0.5, 1.0))
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)
        self._connect()

    def _turn(self) -> None:
        """Wait for a message or the next heartbeat, and deal with it."""
        settings = self.settings
        assert self._socket is not None
        beat_s = settings.heartbeat_s / (4 if self._counted else 1)  # counters that moved are told sooner
        ready = dict(self._poller.poll(max(0, int((self._last_beat + beat_s - time.monotonic()) * 1000) + 1)))
        if self._socket in ready:
            frames = self._socket.recv_multipart()
            self._last_heard = time.monotonic()
            self._backoff_s = BACKOFF_MIN_S
            self._receive(frames)
        now = time.monotonic()
        if now - self._last_beat >= beat_s and not self._stopping:
            self._last_beat = now
            # Silence counts only while listening: what came during a long request is still in the socket.
            if now - self._last_heard > settings.heartbeat_s * settings.misses and self._socket not in ready:
                self._reconnect()
            else:
                self._counted = False
                self._send(Envelope("heartbeat", stats=self.core.stats()))

    def _receive(self, frames: list[bytes]) -> None:
        try:
            envelope = protocol.unpack_envelope(frames[0])
        except WireError as error:
            log.warning("a message from the broker is ignored: %s", error)
            return
        if envelope.op == "work":
            self._counted = True
            code, reply = self.core.handle(frames[1:])
            self._send(Envelope("done", job=envelope.job, code=code), reply)
        elif envelope.op == "disconnect" and not self._stopping:
            self._reconnect()
        elif envelope.op == "drain":
            self._stopping = self._drained = True

    def _send(self, envelope: Envelope, rest: Sequence[Buffer] = ()) -> None:
        assert self._socket is not None
        frames = [protocol.pack_envelope(envelope), *rest]
        try:
            self._socket.send_multipart(frames, copy=all(len(frame) < zmq.COPY_THRESHOLD for frame in frames))
        except zmq.Again:
            log.warning("the broker takes nothing; this message is dropped")
            self._last_heard = float("-inf")

    def _leave(self) -> None:
        """Ask for no more work, answer what is on its way, say goodbye. Without a broker there is nobody to tell."""
        assert self._socket is not None
        try:
            self._socket.send(protocol.pack_envelope(Envelope("leave")), zmq.DONTWAIT)
            while self._socket.poll(LEAVE_MS):
                self._receive(self._socket.recv_multipart())
            self._socket.send(protocol.pack_envelope(Envelope("disconnect")), zmq.DONTWAIT)
        except zmq.Again:
            return


def load_tokenizers(specifications: Sequence[str]) -> dict[str, engine.Tokenizer]:
    """Load NAME=PATH and NAME=tiktoken:ENCODING. Raises BadTokenizerError naming the one at fault."""
    loaded: dict[str, engine.Tokenizer] = {}
    for specification in specifications:
        name, separator, source = specification.partition("=")
        if not separator or not name or not source:
            raise BadTokenizerError(f"{specification}: a tokenizer is given as NAME=PATH or NAME=tiktoken:ENCODING")
        if name in loaded:
            raise BadTokenizerError(f"{specification}: the name {name!r} is given twice")
        if len(name.encode()) > protocol.TOKENIZER_MAX_BYTES:
            raise BadTokenizerError(f"{specification}: a name has at most {protocol.TOKENIZER_MAX_BYTES} bytes")
        try:
            loaded[name] = engine.load(_tiktoken(source[9:]) if source.startswith("tiktoken:") else source)
        except BadTokenizerError as error:
            raise BadTokenizerError(f"tokenizer {name}: {error}") from None
    return loaded


def _tiktoken(encoding: str) -> object:
    try:
        import tiktoken

        return tiktoken.get_encoding(encoding)
    except ImportError:
        raise BadTokenizerError("tiktoken is not installed") from None
    except ValueError as error:
        raise BadTokenizerError(f"tiktoken has no encoding {encoding!r}: {str(error).splitlines()[0]}") from None
    except Exception as error:  # whatever its loader meets; mostly, that there is no network
        raise BadTokenizerError(
            f"tiktoken could not load the ranks of {encoding!r} ({type(error).__name__}); "
            "it takes them from the network, or from the folder that TIKTOKEN_CACHE_DIR names"
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker: what the supervisor starts. People use `tokseam serve`."""
    parser = argparse.ArgumentParser(prog="tokseam.workers.repair")
    parser.add_argument("--endpoint", required=True, help="the workers' endpoint of the broker")
    parser.add_argument("--name", required=True)
    parser.add_argument("--tokenizer", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--io-cpus", type=parse_list, default=[])
    parser.add_argument("--heartbeat-s", type=float, default=1.0)
    parser.add_argument("--sessions", type=int, default=Limits().sessions)
    parser.add_argument("--session-bytes", type=int, default=Limits().session_bytes)
    parser.add_argument("--message-max-bytes", type=int, default=protocol.MESSAGE_MAX_BYTES)
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s %(name)s {options.name} %(message)s", stream=sys.stderr
    )
    try:
        tokenizers = load_tokenizers(options.tokenizer)
    except BadTokenizerError as error:
        print(f"tokseam: {error}", file=sys.stderr)
        return 2
    limits = Limits()._replace(
        sessions=options.sessions,
        session_bytes=options.session_bytes,
        message_bytes=options.message_max_bytes,
        text_bytes=options.message_max_bytes - protocol.HEADER_MAX_BYTES,
    )
    settings = Settings(
        options.endpoint,
        options.name,
        options.heartbeat_s,
        credit_bytes=2 * options.message_max_bytes,
        io_cpus=tuple(options.io_cpus),
    )
    Shell(WorkerCore(tokenizers, limits), settings).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
