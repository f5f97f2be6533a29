"""An append's steps from client to client without sockets: the pure halves one after the other, each timed.

Twice: warm, with nothing between them, and cold, where before each step a stretch of memory larger than a core's own
caches is written, so that code and data come from afar. In a tier a step stands between the two: other processes had
the core meanwhile. What a process does besides (ZeroMQ, waking up) is not here. Limits: one session, appends and the
edits that take them back; a stale answer is an error.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from tokseam.broker import protocol
from tokseam.broker.protocol import Buffer, Request
from tokseam.broker.routing import Router
from tokseam.broker.state import Send
from tokseam.client.session import Change, Turns
from tokseam.kernels import engine
from tokseam.workers.core import WorkerCore

from .spread import Spread

#: Bytes written before a cold step: several times a core's own caches, and half of a large last-level one.
COLD_BYTES = 16 * 1024 * 1024
_LINE_BYTES = 64


class Step(NamedTuple):
    """A step, and whether a caller waits for it: what is done while another process has its turn costs him nothing."""

    name: str
    waited_for: bool = True


WORKER = Step("worker: read, engine, reply")
STEPS = (
    Step("client: the message"),
    Step("client: its digest, the next text", False),
    Step("broker: read, place, envelope"),
    WORKER,
    Step("worker: the books", False),
    Step("broker: read, settle"),
    Step("client: read, take the patch"),
)
#: Within the worker's: the engine's share.
ENGINE = Step("  of it the engine", False)


class Timed:
    """An engine session that says how long its last append took."""

    def __init__(self, session: engine.Session) -> None:
        self._session = session
        self.taken_ns = 0

    def append_packed(self, delta: bytes) -> engine.PackedSplice:
        start = time.perf_counter_ns()
        splice = self._session.append_packed(delta)
        self.taken_ns = time.perf_counter_ns() - start
        return splice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class Steps:
    """One session over a client's, a broker's and a worker's pure halves."""

    def __init__(self, tokenizer: engine.Tokenizer, text: str) -> None:
        self._chars = len(text)
        self._core = WorkerCore({"t": tokenizer})
        self._router = Router()
        self._router.on_ready(b"worker", "repair-0", 1, 8, 2 * protocol.MESSAGE_MAX_BYTES, self._core.describe(), 0.0)
        self._turns = Turns(tokenizer.sha256, 0)
        self._count = 0
        #: The frames of the last step's request and reply.
        self.request: list[Buffer] = []
        self.reply: list[Buffer] = []
        self._carry(self._turns.plan_append(text))
        (held,) = self._core.sessions.values()
        self._engine = Timed(held.engine)
        held.engine = self._engine

    def time(self, deltas: list[str], block: int, cold: bool = False) -> dict[Step, Spread]:
        """Carry appends out, taken back after each block. Returns each step's spread."""
        place = STEPS.index(WORKER) + 1
        taken: dict[Step, list[int]] = {step: [] for step in (*STEPS[:place], ENGINE, *STEPS[place:])}
        for first in range(0, len(deltas), block):
            for delta in deltas[first : first + block]:
                lasted = self._carry(self._turns.plan_append(delta), cold)
                for step, nanoseconds in zip(STEPS, lasted, strict=True):
                    taken[step].append(nanoseconds)
                taken[ENGINE].append(self._engine.taken_ns)
            request, reply = self.request, self.reply
            self._carry(self._turns.plan_edit(self._chars, self._turns.text.length, ""))
            self.request, self.reply = request, reply
        return {step: Spread.of_ns(sample) for step, sample in taken.items()}

    def _carry(self, change: Change, cold: bool = False) -> list[int]:
        """Carry one change out. Returns how long each step took."""
        self._count += 1
        step = _Stopwatch(cold)
        with step:
            message = self._turns.message(change)
            assert message is not None
            request = Request(
                message.op, self._count.to_bytes(protocol.REQUEST_ID_BYTES, "little"), session="roundtrip"
            )
            request.budget_ms = 60_000
            self._turns.address(request, message, change)
            sent = protocol.pack_request(request)
        with step:
            message.prepare()
        with step:
            placed = protocol.unpack_request(sent)
            (instruction,) = self._router.on_request(b"client", placed, sum(map(len, sent)), sent, time.monotonic())
            assert isinstance(instruction, Send)
            envelope = protocol.pack_work(instruction.job.number)
        with step:
            job = protocol.work_job(envelope)
            assert job is not None
            code, replied = self._core.answer(instruction.job.payload, time.monotonic())
            envelope = protocol.pack_done(job, code)
        with step:
            self._core.settle()
        with step:
            job = protocol.done_job(envelope)
            assert job is not None
            self._router.on_done(b"worker", job, protocol.OK, time.monotonic())
        with step:
            self._turns.take(change, message, protocol.unpack_reply(replied))
        self.request, self.reply = sent, replied
        return step.lasted


class _Stopwatch:
    """Times what is in its `with`, one stretch after the other."""

    def __init__(self, cold: bool) -> None:
        self._cold = cold
        self._started = 0
        self.lasted: list[int] = []

    def __enter__(self) -> None:
        if self._cold:
            _FAR[::_LINE_BYTES] += 1
        self._started = time.perf_counter_ns()

    def __exit__(self, *raised: object) -> None:
        self.lasted.append(time.perf_counter_ns() - self._started)


_FAR = np.zeros(COLD_BYTES, dtype=np.uint8)
