"""A worker's core without sockets: idempotence, stale answers, eviction, failures that stay one request's own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokseam.broker import protocol
from tokseam.broker.protocol import Demotion, Reply, Request
from tokseam.client.session import Turns
from tokseam.kernels import engine
from tokseam.kernels._native import OverlapMismatch
from tokseam.workers.core import OWED_BYTES, OWED_MAX, WorkerCore
from tokseam.workers.sampling import Sampler
from tokseam.workers.store import Limits

Reference = Callable[[str], list[int]]
COUNTER = itertools.count()


@pytest.fixture(scope="module")
def tokenizer(deepseek: Path) -> engine.Tokenizer:
    return engine.load(deepseek)


class Near:
    """A client's session with its worker at hand: the pure halves of both, and nothing between them."""

    def __init__(self, core: WorkerCore, session: str, turns: Turns | None = None) -> None:
        self.core, self.session = core, session
        self.turns = turns or Turns(core.names["ds"].sha256, 0)
        self.last_frames: list[Any] = []
        self.last_answer: tuple[str, list[Any]] = "", []

    def send(self, op: str, **fields: Any) -> Reply:
        request = Request(op, next(COUNTER).to_bytes(16, "big"), session=self.session, **fields)
        self.last_frames = protocol.pack_request(request)
        return protocol.unpack_reply(self.core.handle(self.last_frames)[1])

    def request(self, plan: Any) -> list[Any]:
        """Return the frames of a change's first request."""
        message = self.turns.message(plan)
        assert message is not None
        request = Request(message.op, next(COUNTER).to_bytes(16, "big"), session=self.session)
        self.turns.address(request, message, plan)
        return protocol.pack_request(request)

    def change(self, plan: Any, settled: bool = True) -> str:
        """Carry a change out as the client does. Returns the operations that it took."""
        answer = self.core.handle if settled else self.core.answer
        took = []
        while True:
            message = self.turns.message(plan)
            if message is None:
                return ""
            took.append(message.op)
            request = Request(message.op, next(COUNTER).to_bytes(16, "big"), session=self.session)
            self.turns.address(request, message, plan)
            self.last_frames = protocol.pack_request(request)
            self.last_answer = answer(self.last_frames)
            reply = protocol.unpack_reply(self.last_answer[1])
            self.core.validate()
            if reply.code == "stale":
                self.turns.base = None
                continue
            assert reply.code == "ok", reply.message
            self.turns.take(plan, message, reply)
            return " ".join(took)


def test_a_session_and_its_resends(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    assert near.change(near.turns.plan_append("Hello")) == "full"
    first = core.handle(near.last_frames)
    assert first == core.handle(near.last_frames)  # a full text sent again changes nothing
    assert near.change(near.turns.plan_append(" world")) == "append"
    kept = core.handle(near.last_frames)
    assert core.handle(near.last_frames) == kept
    assert core.counters["resent"] >= 2
    assert near.change(near.turns.plan_edit(0, 1, "J")) == "edit"
    assert core.sessions["", "s"].engine.text() == "Jello world"
    assert near.turns.ids == reference("Jello world")


def test_a_large_full_text_sent_again_keeps_the_revision(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer}, Limits(reply_bytes=10))
    near = Near(core, "s")
    near.change(near.turns.plan_append("some words that have more than ten bytes of ids"))
    revision = core.sessions["", "s"].revision
    code, _ = core.handle(near.last_frames)
    assert code == "ok"
    assert core.sessions["", "s"].revision == revision
    assert near.change(near.turns.plan_append(" more")) == "append"


def test_lost_and_foreign_states_are_stale(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    core = WorkerCore({"ds": tokenizer})
    one, two = Near(core, "s"), Near(core, "s")
    assert one.change(one.turns.plan_append("one")) == "full"
    assert two.change(two.turns.plan_append("two")) == "full"
    assert one.change(one.turns.plan_append(" one")) == "append full"
    assert two.change(two.turns.plan_append(" two")) == "append full"
    assert one.turns.ids == reference("one one")
    assert two.turns.ids == reference("two two")
    assert two.send("close").code == "ok"
    assert two.send("close").code == "ok"
    assert two.change(two.turns.plan_edit(0, 0, "x")) == "edit full"
    assert two.turns.ids == reference("xtwo two")
    assert core.counters["stale"] == 3


def test_forks_share_and_part(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    core = WorkerCore({"ds": tokenizer})
    parent = Near(core, "p")
    parent.change(parent.turns.plan_append("a common start"))
    base = parent.turns.base
    assert base is not None
    fields = {"new_session": "c", "tokenizer": "ds", "revision": base.revision, "digest": base.digest}
    reply = parent.send("fork", **fields)
    assert (reply.code, reply.revision, reply.digest) == ("ok", *base)
    assert protocol.unpack_reply(core.handle(parent.last_frames)[1]) == reply
    child = Near(core, "c", parent.turns.fork())
    assert child.change(child.turns.plan_append(" of mine")) == "append"
    assert parent.change(parent.turns.plan_append(" of its own")) == "append"
    assert child.turns.ids == reference("a common start of mine")
    assert parent.turns.ids == reference("a common start of its own")
    assert parent.send("fork", **fields).code == "stale"


def test_a_session_changes_hands(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    leaving, heir = WorkerCore({"ds": tokenizer}), WorkerCore({"ds": tokenizer})
    near, other = Near(leaving, "s"), Near(leaving, "special", Turns(tokenizer.sha256, protocol.ADD_SPECIAL_TOKENS))
    near.change(near.turns.plan_append("one two"))
    near.change(near.turns.plan_edit(0, 3, "1"))
    other.change(other.turns.plan_append("three"))
    Near(heir, "s").send("full", tokenizer="ds", body=[b"an older state"])
    for message in leaving.parting():
        code, reply = heir.handle(message)
        assert (code, len(reply)) == ("ok", 1)
        heir.validate()
    assert heir.counters["adopted"] == 2
    for moved in (near, other):
        moved.core = heir
        assert moved.change(moved.turns.plan_append(" more")) == "append"
    assert near.turns.ids == reference("1 two more")
    wanted = tokenizer.encode("three more", add_special_tokens=True).tolist()
    assert other.turns.ids == wanted
    full = WorkerCore({"ds": tokenizer}, Limits(sessions=2))
    Near(full, "own").change(Near(full, "own").turns.plan_append("its own"))
    for message in leaving.parting():
        assert full.handle(message)[0] == "ok"
        full.validate()
    assert list(full.sessions) == [("", "special"), ("", "own")]  # the latest, before what is its own
    narrow = WorkerCore({"ds": tokenizer}, Limits(session_bytes=10))
    assert narrow.handle(next(leaving.parting()))[0] == "ok"
    assert (len(narrow.sessions), narrow.store.evicted) == (0, 0)
    damaged = [*next(leaving.parting())[:1], b"ab\xff"]
    assert heir.handle(damaged)[0] == "bad_request"
    heir.validate()


def test_what_is_handed_over_is_bounded_and_the_latest(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer}, Limits(handover_bytes=25))
    nears = {name: Near(core, name) for name in "abcd"}
    for near in nears.values():
        near.change(near.turns.plan_append("ten bytes!"))
    nears["b"].change(nears["b"].turns.plan_append("."))
    given = [protocol.unpack_request(message) for message in core.parting()]
    assert [(one.op, one.session) for one in given] == [("adopt", "b"), ("adopt", "d")]
    core.demote(Demotion(tokenizer.sha256, "planted", 1))
    assert list(core.parting()) == []


def test_the_books_follow_the_reply(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    near.change(near.turns.plan_append("one two three"))
    request = near.request(near.turns.plan_append(" four"))
    answered = core.answer(request)
    held = core.sessions["", "s"]
    assert held.engine.text() == "one two three four"
    assert (len(held.replies), len(held.history), core.counters["path_append"]) == (1, 1, 0)
    assert core.answer(request) == answered  # settles the first, and finds its reply
    assert (len(held.replies), len(held.history), core.counters["path_append"]) == (2, 2, 1)
    assert core.counters["resent"] == 1
    core.settle()
    core.settle()
    assert (len(held.replies), len(held.history), core.counters["path_append"]) == (2, 2, 1)
    core.validate()


def test_what_may_wait_is_settled_before_it_matters(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    assert core.can_wait, "nothing is owed"
    core.answer(near.request(near.turns.plan_append("a first text is encoded in full")))
    assert not core.can_wait
    core.settle()
    near.change(near.turns.plan_append("a text of ten words or so, it may be eleven"))
    core.answer(near.request(near.turns.plan_append(" more")))
    assert core.can_wait
    core.demote(Demotion(tokenizer.sha256, "planted", 1))  # drops the session that the books are owed of
    core.validate()
    assert (core.store.bytes, core.counters["path_append"]) == (0, 1)
    drawing = WorkerCore({"ds": tokenizer}, sampler=Sampler(1.0, 1e9))
    near = Near(drawing, "s")
    near.change(near.turns.plan_append("a text"))
    drawing.answer(near.request(near.turns.plan_append(" more")))
    assert not drawing.can_wait, "a sample is to be completed"


def test_books_of_many_steps_wait_together(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    near.change(near.turns.plan_append("one"))
    steps = []
    for number in range(OWED_MAX):
        near.change(near.turns.plan_append(f" {number}"), settled=False)
        steps.append((near.last_frames, near.last_answer))
    held = core.sessions["", "s"]
    assert (core.counters["path_append"], len(held.history)) == (0, 1), "all of them wait"
    core.validate()
    near.change(near.turns.plan_append(" more"), settled=False)
    assert core.counters["path_append"] == OWED_MAX, "so many and no more"
    near.change(near.turns.plan_append(" and more"), settled=False)
    steps.append((near.last_frames, near.last_answer))
    for frames, answered in steps[-core.limits.replies + 1 :]:
        assert core.answer(frames) == answered, "one that comes again finds its reply, owed or kept"
    assert core.counters["resent"] == core.limits.replies - 1
    assert [step.revision for step in held.history] == list(
        range(held.revision - len(held.history) + 1, held.revision + 1)
    )
    assert near.turns.ids == reference(held.engine.text())
    core.validate()


def test_a_large_change_does_not_wait(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    near.change(near.turns.plan_append("one"))
    core.answer(near.request(near.turns.plan_append(" two" * OWED_BYTES)))
    assert not core.can_wait
    core.settle()
    assert core.can_wait


def test_books_of_a_session_that_was_driven_out(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer})
    nears = [Near(core, f"s{number}") for number in range(3)]
    for near in nears:
        near.change(near.turns.plan_append(f"of {near.session}"))
    core.store.limits = Limits(session_bytes=1)  # the first books drive out those whose books come next
    for near in nears:
        near.change(near.turns.plan_append(" more"), settled=False)
    core.settle()
    core.validate()
    assert [key for _, key in core.sessions] == ["s0"]
    assert (core.store.evicted, core.counters["path_append"], core.counters["failed"]) == (2, 3, 0)


def test_what_is_no_change_finds_the_books_kept(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    near.change(near.turns.plan_append("one"))
    near.change(near.turns.plan_append(" two"), settled=False)
    near.turns.base = None
    assert near.change(near.turns.plan_append(" three")) == "full"
    assert [step.op for step in core.sessions["", "s"].history] == ["full", "append", "full"]


def test_a_sample_holds_the_steps_whose_books_waited(tokenizer: engine.Tokenizer) -> None:
    sampler = Sampler(0.0, 1e9)
    core = WorkerCore({"ds": tokenizer}, sampler=sampler)
    near = Near(core, "s")
    near.change(near.turns.plan_append("one"))
    near.change(near.turns.plan_append(" two"), settled=False)
    core._sampler = Sampler(1.0, 1e9)
    near.change(near.turns.plan_append(" three"))
    (sample,) = core.samples
    assert [tuple(step[:2]) for step in sample.history] == [(1, "full"), (2, "append")]


def test_an_alarm_tells_of_the_step_that_caught_itself(tokenizer: engine.Tokenizer) -> None:
    core = WorkerCore({"ds": tokenizer})
    good, bad = Near(core, "good"), Near(core, "bad")
    for near in (good, bad):
        near.change(near.turns.plan_append("one two three"))
    held: Any = core.sessions["", "bad"].engine
    store = held._store

    class Caught:
        def append_packed(self, delta: bytes) -> Any:
            raise OverlapMismatch("planted")

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    held._store = Caught()
    good.change(good.turns.plan_append(" four"), settled=False)
    assert core.can_wait
    bad.change(bad.turns.plan_append(" five"), settled=False)
    core.settle()
    (alarm,) = core.alarms
    assert (alarm.op, alarm.revision) == ("append", 2)
    assert [step[:2] for step in alarm.history] == [(1, "full"), (2, "append")]
    assert alarm.report.text_chars == bad.turns.text.length
    core.alarms.clear()
    good.change(good.turns.plan_append(" six"))
    assert core.alarms == [], "once"


def test_books_that_fail_cost_no_answer(tokenizer: engine.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    near.change(near.turns.plan_append("one"))
    with monkeypatch.context() as patched:
        patched.setattr(core.store, "measure", lambda *_: 1 / 0)
        assert near.change(near.turns.plan_append(" two")) == "append"
    assert core.counters["failed"] == 1
    assert near.change(near.turns.plan_append(" three")) == "append"
    core.validate()


@pytest.mark.parametrize("limits", [Limits(sessions=3), Limits(session_bytes=2_500)])
def test_eviction_is_by_number_and_by_bytes(tokenizer: engine.Tokenizer, reference: Reference, limits: Limits) -> None:
    core = WorkerCore({"ds": tokenizer}, limits)
    nears = [Near(core, f"s{number}") for number in range(10)]
    dice = random.Random(5)
    for _ in range(200):
        near = dice.choice(nears)
        near.change(near.turns.plan_append(dice.choice(["word ", "x", "longer words here "])))
        assert near.turns.ids == reference(str(near.turns.text))
        assert len(core.sessions) <= limits.sessions
        assert core.store.bytes <= limits.session_bytes or len(core.sessions) == 1
    assert core.store.evicted > 20
    assert core.counters["stale"] > 20


def test_a_failure_is_one_requests_own(
    tokenizer: engine.Tokenizer, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "s")
    near.change(near.turns.plan_append("before"))

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault within")

    with monkeypatch.context() as patch:
        patch.setattr(engine.Tokenizer, "encode", broken)
        reply = near.send("encode", tokenizer="ds", body=[b"x"])
        assert (reply.code, "a fault within" in reply.message) == ("internal", True)
        assert reply.request_id is not None
    with monkeypatch.context() as patch:
        patch.setattr(engine.Tokenizer, "encode", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
        assert near.send("encode", tokenizer="ds", body=[b"x"]).code == "too_large"
    assert near.change(near.turns.plan_append(" after")) == "append"
    assert near.turns.ids == reference("before after")
    assert core.counters["failed"] == 1


def test_stateless_answers(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    core = WorkerCore({"ds": tokenizer})
    near = Near(core, "")
    reply = near.send("batch", tokenizer="ds", body=[np.array([1, 0, 2], dtype="<u4").tobytes(), b"abc"])
    assert np.frombuffer(reply.body[0], "<u4").tolist() == [1, 0, 1]
    assert np.frombuffer(reply.body[1], "<u4").tolist() == reference("a") + reference("bc")
    empty = near.send("batch", tokenizer="ds", body=[b"", b""])
    assert list(empty.body) == [b"", b""]
    assert near.send("count", tokenizer="ds", body=[b"a b"]).count == len(reference("a b"))


@pytest.mark.parametrize("seed", range(25))
def test_whatever_a_network_does_answers_are_right(
    tokenizer: engine.Tokenizer, reference: Reference, seed: int
) -> None:
    """Requests lost, doubled, or delivered much later; replies lost; clients on one id; a worker restarted."""
    dice = random.Random(seed)
    core = WorkerCore({"ds": tokenizer}, Limits(sessions=4, replies=dice.choice([1, 4])))
    nears = [Near(core, dice.choice(["a", "a", "b", "c"])) for _ in range(4)]
    past: list[list[Any]] = []

    def exchange(frames: list[Any]) -> Reply:
        """Send until a reply gets through, as a client does: the same request, under the same id."""
        past.append(frames)
        while True:
            if dice.random() < 0.15:
                core.answer(dice.choice(past))  # a straggler
            if dice.random() < 0.2:
                core.settle()
            if dice.random() < 0.03:
                for key in [*core.sessions]:
                    core.store.drop(key)
            if dice.random() < 0.2:
                continue  # the request is lost
            answers = [core.answer(frames) for _ in range(dice.choice([1, 1, 2]))]
            core.validate()
            if dice.random() < 0.2:
                continue  # the reply is lost
            return protocol.unpack_reply(dice.choice(answers)[1])

    for _ in range(40):
        near = dice.choice(nears)
        turns = near.turns
        length = turns.text.length
        if dice.random() < 0.5:
            plan = turns.plan_append(dice.choice(["word ", "é", "12", " the end\n"]))
        elif dice.random() < 0.7:
            start = dice.randrange(length + 1)
            plan = turns.plan_edit(start, min(length, start + dice.randrange(4)), dice.choice(["", "x", " yz "]))
        else:
            plan = turns.plan_turn(str(turns.text)[: dice.randrange(length + 1)] + " turned")
        for _ in range(50):
            message = turns.message(plan)
            if message is None:
                break
            request = Request(message.op, next(COUNTER).to_bytes(16, "big"), session=near.session)
            turns.address(request, message, plan)
            reply = exchange(protocol.pack_request(request))
            if reply.code == "ok" and reply.digest == message.digest:
                turns.take(plan, message, reply)
                break
            assert reply.code in ("stale", "ok"), reply.message
            turns.base = None
        else:
            raise AssertionError("it never got through")
        assert turns.ids == reference(str(turns.text))
