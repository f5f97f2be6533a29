"""A worker's process: one DEALER socket to the broker around a core, one thread, one loop.

It says ready, takes what it is sent, and beats from this very loop, so that a heartbeat proves that work moves and not
only that a process lives. When the broker is silent it connects anew, with backoff, and says ready and which sessions
it holds: a broker that restarted knows nobody.

Beside it stands a socket to the shadow verifier, where there is one: samples go out as far as there is room, verdicts
come back to make room, and nothing ever waits for either.

Limits: how work is done is for repair.py and fresh.py to say; what a message means, for their cores.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import zmq
from tokseam.broker import frames, protocol
from tokseam.broker.protocol import Buffer, Envelope, SessionKey, WireError
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

from .answering import Answering
from .sampling import BYTES_PER_S, RATE, Outbox, Sample, Sampler, pack_sample
from .specifications import load_tokenizers
from .speed import Speed

log = logging.getLogger("tokseam.worker")

#: Seconds before the first new try to reach a silent broker, and at most.
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 2.0
#: Times a heartbeat that a waiting worker looks at what else there is: the next beat, a signal to stop. It waits
#: on its socket alone, since to watch more would cost every request.
LOOKS = 8
#: How many times sooner the broker hears of counters that moved than of none.
SOONER = 4
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
    #: Requests, and bytes of requests, taken at a time.
    credits: int = 8
    credit_bytes: int = 2 * protocol.MESSAGE_MAX_BYTES
    #: Where the verifier takes samples; None where there is none.
    shadow_endpoint: str | None = None


Core = TypeVar("Core", bound=Answering)


class Shell(ABC, Generic[Core]):
    """Sockets, clock and signals around one core. Owned and used by one thread."""

    def __init__(self, core: Core, settings: Settings) -> None:
        self.core = core
        self.settings = settings
        #: How fast this worker encoded of late.
        self.speed = Speed()
        #: What is on its way to the verifier.
        self.outbox = Outbox()
        #: The way to the verifier, for this process's life: ZeroMQ finds a restarted one by itself.
        self._shadow: zmq.Socket[bytes] | None = None
        self._context = zmq.Context()
        #: None between two connections.
        self._socket: zmq.Socket[bytes] | None = None
        self._last_heard = 0.0
        #: When to beat next.
        self._beat_due = 0.0
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
        self._connect_shadow()
        self._connect()
        try:
            while not self._stopping:
                self._turn()
            if not self._drained:
                self._leave()
        finally:
            if self._socket is not None:
                self._socket.close(LINGER_MS)
            if self._shadow is not None:
                self._shadow.close(0)
            self._context.term()

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _connect_shadow(self) -> None:
        if self.settings.shadow_endpoint is None:
            return
        made = self._context.socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.SNDHWM, 2 * self.outbox.samples)  # the outbox bounds; this is a fuse
        made.connect(self.settings.shadow_endpoint)
        self._shadow = made

    def _connect(self) -> None:
        made = self._context.socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, LINGER_MS)
        made.setsockopt(zmq.IMMEDIATE, 1)
        made.setsockopt(zmq.SNDTIMEO, SEND_MS)
        made.setsockopt(zmq.RCVTIMEO, max(1, int(1000 * self.settings.heartbeat_s / LOOKS)))
        made.connect(self.settings.endpoint)
        self._socket = made
        self._last_heard = time.monotonic()
        settings = self.settings
        self._counted = False
        self._beat_due = self._last_heard + settings.heartbeat_s
        self._tell(
            Envelope(
                "ready",
                name=settings.name,
                pid=os.getpid(),
                credits=settings.credits,
                credit_bytes=settings.credit_bytes,
                tokenizers=self.core.describe(),
                demotions=list(self.core.demoted.values()),
                engine=self._engine(),
            )
        )
        keys = [list(key) for key in self._sessions()]
        for first in range(0, len(keys), SESSIONS_PER_MESSAGE):
            self._tell(Envelope("sessions", sessions=keys[first : first + SESSIONS_PER_MESSAGE]))

    def _reconnect(self) -> None:
        log.info("the broker is silent; connecting anew")
        if self._socket is not None:
            self._socket.close(0)
            self._socket = None
        time.sleep(self._backoff_s * random.uniform(0.5, 1.0))
        self._backoff_s = min(2 * self._backoff_s, BACKOFF_MAX_S)
        self._connect()

    def _turn(self) -> None:
        """Wait a while for a message and deal with it; beat when it is time."""
        assert self._socket is not None
        heard = True
        try:
            message = frames.receive(self._socket, frames.WAIT)
        except zmq.Again:
            heard = False
            now = time.monotonic()
            self._catch_up()
        else:
            now = self._last_heard = time.monotonic()
            self._backoff_s = BACKOFF_MIN_S
            self._receive(message)
        if now >= self._beat_due and not self._stopping:
            self._beat(heard)

    def _beat(self, heard: bool) -> None:
        """Tell the broker that work moves, and the counters; connect anew where it was silent for too long.

        Silence counts only while listening: what came during a long request is still in the socket.
        """
        self._catch_up()  # its counters are told below
        settings = self.settings
        now = time.monotonic()
        if now - self._last_heard > settings.heartbeat_s * settings.misses and not heard:
            self._reconnect()
            return
        if self._shadow is not None:
            self._take_verdicts(self._shadow)
        self._counted = False
        self._beat_due = now + settings.heartbeat_s
        if self.outbox.open:
            self._note_counted()  # verdicts will move them
        self._tell(Envelope("heartbeat", stats=self._stats(), engine=self._engine()))

    def _note_counted(self) -> None:
        """Counters moved: they are told sooner than a beat is due otherwise."""
        if not self._counted:
            self._counted = True
            self._beat_due -= (1 - 1 / SOONER) * self.settings.heartbeat_s

    def _receive(self, message: list[bytes]) -> None:
        job = protocol.work_job(message[0])
        if job is not None:
            self._work(job, message)
            return
        try:
            envelope = protocol.unpack_envelope(message[0])
        except WireError as error:
            log.warning("a message from the broker is ignored: %s", error)
            return
        if envelope.op == "work":
            self._work(envelope.job, message)
        elif envelope.op == "demote":
            for demotion in envelope.demotions or ():
                if self.core.demote(demotion):
                    log.warning("tokenizer %s: %s", demotion.sha256[:16], demotion.reason)
        elif envelope.op == "restore":
            for demotion in envelope.demotions or ():
                if self.core.restore(demotion.sha256):
                    log.info("tokenizer %s is restored", demotion.sha256[:16])
        elif envelope.op == "disconnect" and not self._stopping:
            self._reconnect()
        elif envelope.op == "drain":
            self._stopping = self._drained = True

    # -- what differs between workers -------------------------------------------------------------------------

    @abstractmethod
    def _work(self, job: int, message: list[bytes]) -> None:
        """Answer a request, now or soon: `message` is its envelope and its frames."""

    def _catch_up(self) -> None:
        """Do what was put off; nothing waits for it, and a worker may have nothing of the kind."""

    def _engine(self) -> str:
        """Return the name of the batch engine; a worker that owns sessions has none."""
        return ""

    def _sessions(self) -> Sequence[SessionKey]:
        """Return the sessions that are held."""
        return ()

    def _part(self) -> None:
        """Hand over what is worth it, before the goodbye. Raises zmq.Again where nobody takes it."""

    # -- messages ---------------------------------------------------------------------------------------------

    def _send(self, envelope: bytes, rest: Sequence[Buffer] = ()) -> None:
        assert self._socket is not None
        try:
            frames.send(self._socket, [envelope, *rest], frames.WAIT)
        except zmq.Again:
            log.warning("the broker takes nothing; this message is dropped")
            self._last_heard = float("-inf")

    def _tell(self, envelope: Envelope) -> None:
        self._send(protocol.pack_envelope(envelope))

    def _stats(self) -> dict[str, int]:
        stats = {**self.core.stats(), "bytes_per_s": self.speed.bytes_per_s(time.monotonic())}
        if self._shadow is not None:
            self.outbox.expire(time.monotonic())
            stats |= {
                "shadow_sampled": self.outbox.sent,
                "shadow_bytes": self.outbox.sent_bytes,
                "shadow_dropped": self.outbox.dropped,
                "shadow_lost": self.outbox.lost,
                "shadow_queued": len(self.outbox.open),
                "shadow_queued_bytes": self.outbox.open_bytes,
            }
        return stats

    def _hand_over_samples(self) -> None:
        for sample in self.core.samples:
            self._hand_over(sample)
        self.core.samples.clear()

    def _hand_over(self, sample: Sample) -> None:
        """Send a sample to the verifier, or drop it: the answer is out, and the next one must not wait."""
        assert self._shadow is not None
        self._take_verdicts(self._shadow)  # they make room
        sample.emitted = time.monotonic()
        sample.when_ms = int(time.time() * 1000)
        number = self.outbox.offer(sample.size, sample.emitted)
        if number is None:
            return
        try:
            frames.send(self._shadow, pack_sample(sample, number, self.settings.name))
        except zmq.Again:
            self.outbox.take_back(number)

    def _take_verdicts(self, shadow: zmq.Socket[bytes]) -> None:
        while self.outbox.open:
            try:
                self.outbox.settle(int.from_bytes(frames.receive(shadow)[-1], "little"))
            except zmq.Again:
                return

    def _leave(self) -> None:
        """Ask for no more work, answer what is on its way, hand over what is worth it, say goodbye.

        Without a broker there is nobody to tell.
        """
        assert self._socket is not None
        try:
            self._socket.send(protocol.pack_envelope(Envelope("leave")), zmq.DONTWAIT)
            while self._socket.poll(LEAVE_MS):
                self._last_heard = time.monotonic()
                self._receive(frames.receive(self._socket))
            self._part()
            self._socket.send(protocol.pack_envelope(Envelope("disconnect")), zmq.DONTWAIT)
        except zmq.Again:
            return


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every worker is started with."""
    parser.add_argument("--endpoint", required=True, help="the workers' endpoint of the broker")
    parser.add_argument("--name", required=True)
    parser.add_argument("--tokenizer", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--heartbeat-s", type=float, default=1.0)
    parser.add_argument("--message-max-bytes", type=int, default=protocol.MESSAGE_MAX_BYTES)
    parser.add_argument("--chunk-cache-bytes", type=int, default=engine.CHUNK_CACHE_BYTES, help="a tokenizer; 0: none")
    parser.add_argument("--shadow-endpoint", help="where the verifier takes samples; without it there are none")
    parser.add_argument("--shadow-rate", type=float, default=RATE)
    parser.add_argument("--shadow-bytes-per-s", type=float, default=BYTES_PER_S, help="of this worker alone")


def settings_of(options: argparse.Namespace, credits: int) -> Settings:
    return Settings(
        options.endpoint,
        options.name,
        options.heartbeat_s,
        credits=credits,
        credit_bytes=2 * options.message_max_bytes,
        shadow_endpoint=options.shadow_endpoint,
    )


def sampler_of(options: argparse.Namespace) -> Sampler | None:
    return Sampler(options.shadow_rate, options.shadow_bytes_per_s) if options.shadow_endpoint else None


def prepare(options: argparse.Namespace, references: bool = True) -> dict[str, engine.Tokenizer] | None:
    """Begin to log, and load the tokenizers; None, with the reason said, where one can't be loaded."""
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s %(name)s {options.name} %(message)s", stream=sys.stderr
    )
    try:
        tokenizers = load_tokenizers(options.tokenizer)
    except BadTokenizerError as error:
        print(f"tokseam: {error}", file=sys.stderr)
        return None
    for tokenizer in tokenizers.values():
        tokenizer.bound_chunk_cache(options.chunk_cache_bytes)
    for tokenizer in tokenizers.values() if references else ():
        # Makes its reference, if it was not made yet: that takes a second, and within a request the broker would take
        # this worker for dead.
        tokenizer.decode([])
    gc.freeze()  # what is here now stays: a later collection need not look at it
    return tokenizers
