"""The supervisor: starts the processes of a tier, restarts those that die, ends them all.

It waits on pidfds, so a death is seen at once; a worker's or the verifier's is reported to the broker, which answers
what it left behind. Children are tied to this process's life by the kernel (child.py). Limits: it carries no requests,
and it knows of its children only the module and arguments that it was given.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import zmq
from tokseam.broker import protocol
from tokseam.broker.protocol import Envelope

from .pinning import Place, Seat

log = logging.getLogger("tokseam.supervisor")

#: Seconds before a child that died is started again; doubled each time that it dies young.
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 10.0
#: Seconds after which a child's life counts as a success and its backoff starts over.
SETTLED_S = 10.0
#: Seconds that the children have to end by themselves. The broker takes up to 5 for requests in progress.
STOP_S = 8.0
#: What a child's first life ends with when no restart can help (a bad setting): the tier ends with it.
HOPELESS = 2


@dataclass(slots=True)
class Child:
    """One process to keep alive."""

    name: str
    module: str
    arguments: list[str]
    #: Its cores; none: any.
    cpus: tuple[int, ...] = ()
    #: How much it gives way to others.
    nice: int = 0
    #: Whether it runs at the lowest priority.
    aside: bool = False
    #: Children of the lowest order end first: the broker, which finishes what is under way with the workers alive.
    stop_order: int = 1
    #: Whether the broker hears of its death.
    announced: bool = True
    #: Whether it says by a byte on --ready-fd that it has its endpoints; children without this wait for that once. A
    #: worker must not reach another tier's broker, which has the endpoint that this one could not get.
    opens: bool = False
    #: Where that byte comes from, until it came.
    ready_fd: int | None = None
    process: subprocess.Popen[bytes] | None = None
    pidfd: int | None = None
    started_at: float = 0.0
    #: When to start it (again); meaningful while it has no process.
    due: float = 0.0
    backoff_s: float = BACKOFF_MIN_S
    restarts: int = 0


@dataclass(slots=True)
class Supervisor:
    """Keeps children alive until stopped. One thread, the main one: it takes the signals."""

    children: list[Child]
    #: Where to report deaths; None reports to nobody.
    back_endpoint: str | None = None
    #: Called once, when the broker has its endpoints.
    on_open: Callable[[], None] | None = None
    #: Seconds between looks at the children where no pidfd tells of their deaths.
    turn_s: float = 0.5
    _opened: bool = False
    _signals: int = 0
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _context: zmq.Context[zmq.Socket[bytes]] | None = None
    _broker: zmq.Socket[bytes] | None = None

    def run(self) -> int:
        """Start everything; return when a signal came and all children ended: 0, or the code of a hopeless child."""
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_reader, False)
        os.set_blocking(wake_writer, False)
        handlers = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        previous_wake = signal.set_wakeup_fd(wake_writer)
        self._selector.register(wake_reader, selectors.EVENT_READ, None)
        hopeless = 0
        try:
            self._open_broker()
            while not self._signals and not hopeless:
                hopeless = self._turn(wake_reader)
        finally:
            self._stop(wake_reader)
            signal.set_wakeup_fd(previous_wake)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._selector.close()
            os.close(wake_reader)
            os.close(wake_writer)
            if self._broker is not None and self._context is not None:
                self._broker.close(0)
                self._context.term()
        return hopeless

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def _open_broker(self) -> None:
        if self.back_endpoint is None:
            return
        self._context = zmq.Context()
        self._broker = self._context.socket(zmq.DEALER)
        self._broker.setsockopt(zmq.IMMEDIATE, 1)
        self._broker.connect(self.back_endpoint)

    def _turn(self, wake: int) -> int:
        now = time.monotonic()
        for child in self.children:
            if child.process is None and child.due <= now and (child.opens or self._opened):
                self._start(child)
        due = [child.due - now for child in self.children if child.process is None and child.due > now]
        for key, _ in self._selector.select(max(0.0, min([*due, self.turn_s]))):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 64)
            elif key.fd == key.data.ready_fd:
                self._hear(key.data)
        for child in self.children:
            if child.process is not None and child.process.poll() is not None:
                code = self._bury(child)
                # A later one may come of a file that is being replaced: the rest of the tier goes on.
                if code == HOPELESS and child.restarts == 1:
                    return code
        return 0

    def _hear(self, child: Child) -> None:
        """A child that opens said so, or its end of the pipe is closed."""
        assert child.ready_fd is not None
        said = os.read(child.ready_fd, 1)
        self._close_ready_fd(child)
        if said and not self._opened:
            self._opened = True
            if self.on_open is not None:
                self.on_open()

    def _start(self, child: Child) -> None:
        command = [sys.executable, "-m", "tokseam.workers.child", "--parent", str(os.getpid())]
        if child.cpus:
            command += ["--cpus", ",".join(map(str, child.cpus))]
        if child.nice:
            command += ["--nice", str(child.nice)]
        if child.aside:
            command.append("--aside")
        command += [child.module, *child.arguments]
        passed: list[int] = []
        if child.opens:
            child.ready_fd, write_fd = os.pipe()
            passed.append(write_fd)
            command += ["--ready-fd", str(write_fd)]
            self._selector.register(child.ready_fd, selectors.EVENT_READ, child)
        # A session of its own: Ctrl-C at the terminal reaches only this process, which ends the others in order.
        child.process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, pass_fds=passed)
        for fd in passed:
            os.close(fd)
        child.started_at = time.monotonic()
        if hasattr(os, "pidfd_open"):
            try:
                child.pidfd = os.pidfd_open(child.process.pid)
            except OSError:  # an old kernel or a strict sandbox: its death is then seen at the next turn
                child.pidfd = None
            else:
                self._selector.register(child.pidfd, selectors.EVENT_READ, child)

    def _bury(self, child: Child) -> int:
        """Take note of a death and plan the next life. Returns the exit code."""
        assert child.process is not None
        code = child.process.wait()
        pid = child.process.pid
        self._close_pidfd(child)
        self._close_ready_fd(child)
        child.process = None
        lived = time.monotonic() - child.started_at
        child.backoff_s = BACKOFF_MIN_S if lived > SETTLED_S else min(2 * child.backoff_s, BACKOFF_MAX_S)
        child.due = time.monotonic() + child.backoff_s
        child.restarts += 1
        if child.announced and self._broker is not None:
            # If the broker is away too, it knows nobody when it is back.
            with contextlib.suppress(zmq.ZMQError):
                self._broker.send(protocol.pack_envelope(Envelope("gone", name=child.name, pid=pid)), zmq.DONTWAIT)
        if code != HOPELESS or child.restarts > 1:
            log.warning("%s (process %d) ended with %d; again in %.1f s", child.name, pid, code, child.backoff_s)
        return code

    def _close_ready_fd(self, child: Child) -> None:
        if child.ready_fd is not None:
            self._selector.unregister(child.ready_fd)
            os.close(child.ready_fd)
            child.ready_fd = None

    def _close_pidfd(self, child: Child) -> None:
        if child.pidfd is not None:
            self._selector.unregister(child.pidfd)
            os.close(child.pidfd)
            child.pidfd = None

    def _stop(self, wake: int) -> None:
        """End the children, the lowest order first; kill what is left after STOP_S or at a second signal."""
        deadline = time.monotonic() + STOP_S
        signals = self._signals
        for order in sorted({child.stop_order for child in self.children}):
            group = [child for child in self.children if child.stop_order == order and child.process is not None]
            for child in group:
                assert child.process is not None
                child.process.terminate()
            while any(child.process is not None and child.process.poll() is None for child in group):
                if time.monotonic() > deadline or self._signals > signals:
                    break
                self._selector.select(0.05)
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 64)
        for child in self.children:
            if child.process is not None:
                child.process.kill()
                child.process.wait()
                self._close_pidfd(child)
                self._close_ready_fd(child)
                child.process = None


def tier(
    endpoint: str,
    back_endpoint: str,
    tokenizers: Sequence[str],
    seats: Sequence[Seat | None],
    places: Sequence[Place] = (),
    *,
    broker_arguments: Sequence[str] = (),
    worker_arguments: Sequence[str] = (),
    repair_arguments: Sequence[str] = (),
    fresh_arguments: Sequence[str] = (),
    verifier_arguments: Sequence[str] | None = None,
) -> list[Child]:
    """Return the children of a tier: a broker, a repair worker a seat, a fresh worker a place, perhaps a verifier.

    `worker_arguments` are for both kinds of workers. Without `verifier_arguments` there is no verifier.
    """
    broker = Child(
        "broker",
        "tokseam.broker.service",
        ["--endpoint", endpoint, *broker_arguments],
        stop_order=0,
        announced=False,
        opens=True,
    )
    named = [part for one in tokenizers for part in ("--tokenizer", one)]
    common = ["--endpoint", back_endpoint, *named, *worker_arguments]
    children = [broker]
    for number, seat in enumerate(seats):
        name = f"repair-{number}"
        own = ["--name", name, *common, *repair_arguments]
        children.append(Child(name, "tokseam.workers.repair", own, () if seat is None else (seat.cpu,)))
    for number, place in enumerate(places):
        name = f"fresh-{number}"
        own = ["--name", name, *common, *fresh_arguments]
        children.append(Child(name, "tokseam.workers.fresh", own, place.cpus, place.nice))
    if verifier_arguments is not None:
        own = ["--back-endpoint", back_endpoint, *named, *verifier_arguments]
        children.append(Child("verifier", "tokseam.workers.shadow", own, aside=True))
    return children
