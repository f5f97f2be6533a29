"""The fresh worker's core without sockets: batches, seeds, engines that fail, and seeds that a network delays."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokseam.broker import protocol
from tokseam.broker.protocol import Demotion, Reply, Request
from tokseam.client.session import Turns
from tokseam.kernels import engine
from tokseam.kernels.reference import HuggingFaceReference
from tokseam.workers.answering import Seam
from tokseam.workers.batch_engine import BatchEngineError, Document
from tokseam.workers.core import WorkerCore
from tokseam.workers.cpu_engine import LONG_BYTES, CpuEngine
from tokseam.workers.fresh_core import FAILURES_MAX, Answered, FreshCore, Limits
from tokseam.workers.sampling import Sampler
from tokseam.workers.shadow import compare, encode, rebuild
from tokseam.workers.store import Limits as OwnerLimits

Reference = Callable[..., list[int]]
COUNTER = itertools.count()
TEXTS = [
    "",
    "Hello world",
    "naïve café 😀 e\u0301 한글",
    "def f(x):\n    return x  # 12345\n\n",
    "<｜end▁of▁sentence｜>x",
]


@pytest.fixture(scope="module")
def tokenizer(deepseek: Path) -> engine.Tokenizer:
    return engine.load(deepseek)


def fresh_core(tokenizer: engine.Tokenizer, batch_engine: Any = None, **rest: Any) -> FreshCore:
    cpu = CpuEngine(1)
    return FreshCore({"ds": tokenizer}, batch_engine or cpu, cpu, **rest)


def frames_of(op: str, body: Sequence[bytes], flags: int = 0, **fields: Any) -> list[Any]:
    request = Request(op, next(COUNTER).to_bytes(16, "big"), tokenizer="ds", flags=flags, body=body, **fields)
    return protocol.pack_request(request)


def answer(core: FreshCore, frames: Sequence[Any]) -> Answered:
    core.take(7, frames)
    core.validate()
    (found,) = core.run()
    assert found.job == 7
    return found


def seed_frames(frames: Sequence[Any], answered: Answered) -> list[Any]:
    """What the broker makes of a fresh worker's answer."""
    return [answered.seed[0], frames[1], answered.frames[1], answered.seed[1]]


def batch_body(texts: Sequence[bytes]) -> list[bytes]:
    return [np.array([len(text) for text in texts], dtype="<u4").tobytes(), b"".join(texts)]


def requests() -> list[list[Any]]:
    encoded = [text.encode() for text in TEXTS]
    found = [frames_of(op, [text], flags) for op in ("encode", "count") for text in encoded for flags in (0, 1, 2)]
    found += [frames_of("full", [text], flags, session="s") for text in encoded for flags in (0, 1, 2)]
    found += [frames_of("batch", batch_body(encoded)), frames_of("batch", [b"", b""])]
    bad = b"ab\xffcd"
    found += [frames_of("encode", [bad]), frames_of("full", [bad], session="s"), frames_of("count", [bad])]
    found += [frames_of("batch", batch_body([b"ok", bad])), frames_of("batch", [b"\1\0\0\0", b"abc"])]
    unknown = Request("encode", bytes(16), tokenizer="nope", body=[b"x"])
    return [*found, protocol.pack_request(unknown), [b"no header"], []]


def test_it_answers_as_an_owner_does(tokenizer: engine.Tokenizer) -> None:
    for frames in requests():
        code, wanted = WorkerCore({"ds": tokenizer}).handle(frames)
        found = answer(fresh_core(tokenizer), frames)
        assert (found.code, found.frames) == (code, wanted)
        assert bool(found.seed) == (code == "ok" and protocol.unpack_request(frames).op == "full")


def test_a_batch_is_answered_as_its_requests_alone(tokenizer: engine.Tokenizer) -> None:
    """Short and long texts, and those that are refused, each as if it were the only one; on several threads."""
    asked = [
        *requests(),
        frames_of("encode", [b"long words " * LONG_BYTES]),
        frames_of("encode", [b"\xff" * LONG_BYTES]),
    ]
    alone = [answer(fresh_core(tokenizer), frames)[1:] for frames in asked]
    for threads in (1, 2, 5):
        cpu = CpuEngine(threads)
        core = FreshCore({"ds": tokenizer}, cpu, cpu)
        for job, frames in enumerate(asked):
            core.take(job, frames)
        found = {one.job: one[1:] for one in core.run()}
        assert [found[job] for job in range(len(asked))] == alone
        assert core.counters["batches"] == 1
        assert core.run() == []
        cpu.close()


def test_a_batch_is_bounded_in_texts_and_bytes(tokenizer: engine.Tokenizer) -> None:
    core = fresh_core(tokenizer)
    for number in range(CpuEngine.batch_documents):
        assert not core.full
        core.take(number, frames_of("encode", [b"x"]))
    assert core.full
    assert len(core.run()) == CpuEngine.batch_documents
    core.take(0, frames_of("batch", batch_body([b"word " * (CpuEngine.batch_bytes // 10 + 1)] * 2)))
    assert core.full
    core.drop()
    assert not core.full
    assert core.run() == []
    core.validate()


def test_what_it_does_not_answer(tokenizer: engine.Tokenizer) -> None:
    core = fresh_core(tokenizer, limits=Limits(text_bytes=10, message_bytes=200))
    for op, body in (("decode", b"\1\0\0\0"), ("offsets", b"x"), ("pieces", b"x")):
        found = answer(core, frames_of(op, [body]))
        assert (found.code, "does not answer" in protocol.unpack_reply(found.frames).message) == ("bad_request", True)
    assert answer(core, frames_of("full", [b"x" * 11], session="s")).code == "too_large"
    assert answer(core, frames_of("encode", [b"x" * 300])).code == "too_large"


def test_a_seed_makes_the_owners_session(tokenizer: engine.Tokenizer, reference: Reference) -> None:
    owner, fresh = WorkerCore({"ds": tokenizer}), fresh_core(tokenizer)
    text = "A session that begins elsewhere. " * 300
    for flags in (0, protocol.ADD_SPECIAL_TOKENS):
        turns = Turns(tokenizer.sha256, flags)
        change = turns.plan_append(text)
        message = turns.message(change)
        assert message is not None
        frames = frames_of("full", [message.payload], flags, session=f"s{flags}")
        answered = answer(fresh, frames)
        turns.take(change, message, protocol.unpack_reply(answered.frames))
        encodes = owner.counters["path_fresh"]
        assert owner.handle(seed_frames(frames, answered))[0] == "ok"
        owner.validate()
        assert owner.counters["path_fresh"] == encodes  # nothing was encoded
        change = turns.plan_append(" It goes on here.")
        message = turns.message(change)
        assert message is not None
        assert message.op == "append"
        request = Request(message.op, next(COUNTER).to_bytes(16, "big"), session=f"s{flags}")
        turns.address(request, message, change)
        reply = protocol.unpack_reply(owner.handle(protocol.pack_request(request))[1])
        assert (reply.code, reply.path) == ("ok", "append")
        turns.take(change, message, reply)
        assert turns.ids == reference(text + " It goes on here.", add_special_tokens=bool(flags))
        # The same seed again, and the same text again: the session stays where it is.
        assert owner.handle(seed_frames(frames, answer(fresh, frames)))[0] == "ok"
        assert owner.sessions["", f"s{flags}"].digest == message.digest
        assert answer(fresh, frames) == answered
    assert (owner.counters["seeds"], owner.counters["seeds_refused"], owner.counters["resent"]) == (2, 0, 2)


def test_a_seed_of_a_text_that_is_there_changes_the_revision_alone(tokenizer: engine.Tokenizer) -> None:
    owner, fresh = WorkerCore({"ds": tokenizer}), fresh_core(tokenizer)
    owner.handle(frames_of("full", [b"first"], session="s"))
    owner.handle(frames_of("full", [b"text"], session="s"))
    held = owner.sessions["", "s"]
    assert held.revision == 2
    frames = frames_of("full", [b"text"], session="s")
    owner.handle(seed_frames(frames, answer(fresh, frames)))
    assert owner.sessions["", "s"] is held
    assert held.revision == 1  # what the client was told


def test_a_seed_that_is_wrong_or_late_is_refused(tokenizer: engine.Tokenizer) -> None:
    owner, fresh = WorkerCore({"ds": tokenizer}), fresh_core(tokenizer)
    owner.handle(frames_of("full", [b"as it was"], session="s"))
    frames = frames_of("full", [b"Some other words. " * 200], session="s")
    header, text, ids, marks = seed_frames(frames, answer(fresh, frames))
    for bad in (
        [header, text + b"x", ids, marks],
        [header, text, ids[:-1], marks],
        [header, text, ids[:8], marks],
        [header, text, ids, marks[:-4]],
        [header, text, ids, bytes(len(marks))],
    ):
        assert owner.handle(bad)[0] == "bad_request"
        owner.validate()
    owner.demote(Demotion(tokenizer.sha256, "planted", 1))
    assert owner.handle([header, text, ids, marks])[0] == "bad_request"
    assert (owner.counters["seeds"], owner.counters["seeds_refused"]) == (0, 6)
    assert len(owner.sessions) == 0  # by the demotion
    owner.restore(tokenizer.sha256)
    assert owner.handle([header, text, ids, marks])[0] == "ok"
    narrow = WorkerCore({"ds": tokenizer}, OwnerLimits(text_bytes=100))
    assert narrow.handle([header, text, ids, marks])[0] == "too_large"
    assert narrow.counters["seeds_refused"] == 1


def test_a_seed_without_memory_leaves_the_session(tokenizer: engine.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, fresh = WorkerCore({"ds": tokenizer}), fresh_core(tokenizer)
    owner.handle(frames_of("full", [b"as it was"], session="s"))
    frames = frames_of("full", [b"more than there is room for"], session="s")
    seed = seed_frames(frames, answer(fresh, frames))
    with monkeypatch.context() as patched:
        patched.setattr(engine.Tokenizer, "seeded_session", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
        assert owner.handle(seed)[0] == "too_large"
    assert owner.sessions["", "s"].engine.text() == "as it was"
    assert owner.counters["seeds_refused"] == 1
    owner.validate()


class Failing:
    """A batch engine that does what a list says: a number of answers, or an error; then it works."""

    name = "failing"
    batch_bytes = 1000
    batch_documents = 10

    def __init__(self, *plan: Exception | int) -> None:
        self.plan = list(plan)
        self.calls = 0
        self.sizes: list[list[int]] = []
        self._cpu = CpuEngine(1)

    def encode(self, tokenizer: engine.Tokenizer, documents: Sequence[Document]) -> Any:
        self.calls += 1
        self.sizes.append([len(document.text) for document in documents])
        found = list(self._cpu.encode(tokenizer, documents))
        if not self.plan:
            return found
        what = self.plan.pop(0)
        if isinstance(what, Exception):
            raise copy.copy(what)  # the plan outlives its test, and must not keep a traceback with all its frames
        return found[:what]

    def close(self) -> None:
        """Nothing to give back."""


def test_an_engine_gets_no_more_than_it_takes(tokenizer: engine.Tokenizer) -> None:
    """And where it fails at a part of a batch, the rest is still its own."""
    batch_engine = Failing(BatchEngineError("out of memory"))
    core = fresh_core(tokenizer, batch_engine)
    asked = [frames_of("batch", batch_body([b"word " * 60] * 7 + [b"word " * 300] + [b"a"] * 23))]
    core.take(0, asked[0])
    assert core.full
    (found,) = core.run()
    assert found.frames == answer(fresh_core(tokenizer), asked[0]).frames
    assert batch_engine.sizes == [[300] * 3, [300] * 3, [300], [1500], [1] * 10, [1] * 10, [1] * 3]
    assert core.counters["engine_failures"] == 1


@pytest.mark.parametrize(
    ("plan", "failures", "lost"),
    [
        ([BatchEngineError("out of memory")], 1, False),
        ([BatchEngineError("the device is gone", lost=True)], 1, True),
        ([RuntimeError("no such luck"), MemoryError()], 2, False),
        ([RuntimeError("again and again")] * FAILURES_MAX, FAILURES_MAX, True),
        ([1], 1, True),
    ],
)
def test_where_an_engine_fails_the_cpu_takes_over(
    tokenizer: engine.Tokenizer, plan: list[Any], failures: int, lost: bool
) -> None:
    failing = Failing(*plan)
    core = fresh_core(tokenizer, failing)
    assert core.engine_name == "failing"
    for _ in range(failures + 2):
        asked = [frames_of("encode", [text.encode()]) for text in TEXTS]
        asked.append(frames_of("full", [b"a session"], session="s"))
        for job, frames in enumerate(asked):
            core.take(job, frames)
        found = core.run()
        assert [one.frames for one in found] == [answer(fresh_core(tokenizer), frames).frames for frames in asked]
        assert found[-1].seed
    assert core.counters["engine_failures"] == failures
    assert core.engine_name == ("cpu, 1 thread" if lost else "failing")
    assert failing.calls == (failures if lost else failures + 2)


def test_a_demoted_tokenizer_is_answered_by_its_reference(tokenizer: engine.Tokenizer, deepseek: Path) -> None:
    """Also what had arrived before the demotion did; and another batch engine never sees it."""
    batch_engine = Failing()
    core = fresh_core(tokenizer, batch_engine)
    frames = frames_of("full", [b"text"], session="s")
    core.take(1, frames)
    core.demote(Demotion(tokenizer.sha256, "planted", 1))
    (found,) = core.run()
    reply = protocol.unpack_reply(found.frames)
    assert (reply.code, reply.path, found.seed, batch_engine.calls) == ("ok", "reference", [], 0)
    core.restore(tokenizer.sha256)
    assert answer(core, frames).seed
    assert (core.counters["path_reference"], core.counters["path_fresh"]) == (1, 1)


def harm(request: Request, reply: Reply) -> Reply:
    if not reply.body or b"PLANTED" not in bytes(request.body[-1]):
        return reply
    ids = np.frombuffer(reply.body[-1], "<u4").copy()
    ids[-1] ^= 1
    reply.body = [*reply.body[:-1], ids.tobytes()]
    return reply


def test_its_answers_are_sampled_as_they_went_out(tokenizer: engine.Tokenizer, deepseek: Path) -> None:
    reference = HuggingFaceReference.from_json(deepseek.read_bytes())
    seam: Seam = harm
    core = fresh_core(tokenizer, sampler=Sampler(1.0, 1e12), seam=seam)
    for text, equal in ((b"some text", True), (b"a PLANTED fault", False)):
        for frames in (
            frames_of("encode", [text]),
            frames_of("full", [text], session="s"),
            frames_of("batch", batch_body([text])),
        ):
            assert answer(core, frames).code == "ok"
            (sample,) = core.samples
            core.samples.clear()
            whole, emitted, note = rebuild(sample)
            assert whole.encode() == text
            verdict = compare(sample, emitted, note, encode(reference, whole, sample.flags))
            assert verdict.equal is equal, sample.op
    assert answer(core, frames_of("count", [b"some text"])).code == "ok"
    assert core.samples[0].count == len(tokenizer.encode("some text"))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_network_does_answers_are_right(
    tokenizer: engine.Tokenizer, reference: Reference, seed: int
) -> None:
    """Whole texts go to the owner or the fresh worker by chance; seeds come at once, late, twice, or never.

    Also behind what their clients did since: an append that comes before its seed is stale or applied to what is there,
    and is never answered wrongly.
    """
    dice = random.Random(seed)
    owner, fresh = (
        WorkerCore({"ds": tokenizer}, OwnerLimits(sessions=4, replies=dice.choice([1, 4]))),
        fresh_core(tokenizer),
    )
    clients = [(dice.choice(["a", "a", "b", "c"]), Turns(tokenizer.sha256, 0)) for _ in range(4)]
    late: list[list[Any]] = []
    past: list[list[Any]] = []

    def handle(frames: list[Any]) -> list[Any]:
        if protocol.unpack_request(frames).op != "full" or dice.random() < 0.4:
            return owner.handle(frames)[1]
        answered = answer(fresh, frames)
        when = dice.random()
        if when < 0.6:
            owner.handle(seed_frames(frames, answered))
        elif when < 0.9:
            late.append(seed_frames(frames, answered))
        return answered.frames

    def exchange(frames: list[Any]) -> Reply:
        past.append(frames)
        while True:
            if late and dice.random() < 0.3:
                owner.handle(dice.choice(late) if dice.random() < 0.3 else late.pop(dice.randrange(len(late))))
            if dice.random() < 0.1:
                handle(dice.choice(past))  # a straggler
            if dice.random() < 0.03:
                for key in [*owner.sessions]:
                    owner.store.drop(key)
            answers = [handle(frames) for _ in range(dice.choice([1, 1, 2]))]
            owner.validate()
            if dice.random() < 0.2:
                continue  # the reply is lost
            return protocol.unpack_reply(dice.choice(answers))

    for _ in range(30):
        name, turns = dice.choice(clients)
        length = turns.text.length
        if dice.random() < 0.6:
            plan = turns.plan_append(dice.choice(["word ", "é", "12", " the end\n"]))
        elif dice.random() < 0.5:
            start = dice.randrange(length + 1)
            plan = turns.plan_edit(start, min(length, start + dice.randrange(4)), dice.choice(["", "x", " yz "]))
        else:
            plan = turns.plan_turn(dice.choice(["a new text", "another, 123", ""]))
        for _ in range(50):
            message = turns.message(plan)
            if message is None:
                break
            request = Request(message.op, next(COUNTER).to_bytes(16, "big"), session=name)
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
    assert owner.counters["seeds"] > 0
