"""An append's steps from client to client without sockets: the pure halves one after the other, each timed.

What a process does besides (ZeroMQ, waking up, caches that others emptied) is not here. Limits: one session, appends
and the edits that take them back; a stale answer is an error.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tokseam.broker import protocol
from tokseam.broker.protocol import Buffer, Request
from tokseam.broker.routing import Router
from tokseam.broker.state import Send
from tokseam.client.session import Change, Turns
from tokseam.kernels import engine
from tokseam.workers.core import WorkerCore

from .spread import Spread


class Step(NamedTuple):
    """A step, and whether a caller waits for it: what is done while another process has its turn costs him nothing."""

    name: str
    waited_for: bool = True


WORKER = Step("worker: read, engine, reply")
STEPS = (
    Step("client: the message"),
    Step("client: its digest", False),
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

    def time(self, deltas: list[str], block: int) -> dict[Step, Spread]:
        """Carry appends out, taken back after each block. Returns each step's spread."""
        place = STEPS.index(WORKER) + 1
        taken: dict[Step, list[int]] = {step: [] for step in (*STEPS[:place], ENGINE, *STEPS[place:])}
        for first in range(0, len(deltas), block):
            for delta in deltas[first : first + block]:
                marks = self._carry(self._turns.plan_append(delta))
                for step, start, stop in zip(STEPS, marks, marks[1:], strict=False):
                    taken[step].append(stop - start)
                taken[ENGINE].append(self._engine.taken_ns)
            request, reply = self.request, self.reply
            self._carry(self._turns.plan_edit(self._chars, self._turns.text.length, ""))
            self.request, self.reply = request, reply
        return {step: Spread.of_ns(sample) for step, sample in taken.items()}

    def _carry(self, change: Change) -> list[int]:
        """Carry one change out. Returns when each step began, and the end."""
        clock = time.perf_counter_ns
        self._count += 1
        marks = [clock()]
        message = self._turns.message(change)
        assert message is not None
        request = Request(message.op, self._count.to_bytes(protocol.REQUEST_ID_BYTES, "little"), session="roundtrip")
        request.budget_ms = 60_000
        self._turns.address(request, message, change)
        sent = protocol.pack_request(request)
        marks.append(clock())
        message.prepare()
        marks.append(clock())
        placed = protocol.unpack_request(sent)
        (instruction,) = self._router.on_request(b"client", placed, sum(map(len, sent)), sent, time.monotonic())
        assert isinstance(instruction, Send)
        envelope = protocol.pack_work(instruction.job.number)
        marks.append(clock())
        job = protocol.work_job(envelope)
        assert job is not None
        code, replied = self._core.answer(instruction.job.payload, time.monotonic())
        envelope = protocol.pack_done(job, code)
        marks.append(clock())
        self._core.settle()
        marks.append(clock())
        job = protocol.done_job(envelope)
        assert job is not None
        self._router.on_done(b"worker", job, protocol.OK, time.monotonic())
        marks.append(clock())
        self._turns.take(change, message, protocol.unpack_reply(replied))
        marks.append(clock())
        self.request, self.reply = sent, replied
        return marks
