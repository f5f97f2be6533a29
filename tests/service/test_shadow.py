"""The shadow verifier without processes: what is drawn, what a sample finds, what becomes of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiktoken
from planted_faults import KINDS, Asked, Driver, Planter, session_shaped, token_strings
from support.synthetic import description, split
from tokseam.broker import demotions, protocol
from tokseam.broker.protocol import Demotion, Envelope, Reply, Request, WireError
from tokseam.broker.routing import Router
from tokseam.broker.state import Tell
from tokseam.kernels import engine
from tokseam.kernels.compile.admission import admit
from tokseam.kernels.reference import HuggingFaceReference, Reference
from tokseam.scripts import transcripts
from tokseam.workers.answering import packed_numbers
from tokseam.workers.core import Alarm, WorkerCore
from tokseam.workers.quarantine import MAX_RECORDS, Quarantine
from tokseam.workers.repair import Shell
from tokseam.workers.sampling import Budget, Outbox, Sample, Sampler, Step, pack_sample, unpack_sample
from tokseam.workers.shadow import Verifier, compare, encode, load_verifier, rebuild
from tokseam.workers.shell import Settings

GENEROUS = 1e12


@pytest.fixture(scope="module")
def tokenizer(deepseek: Path) -> engine.Tokenizer:
    return engine.load(deepseek)


@pytest.fixture(scope="module")
def fresh(deepseek: Path) -> Reference:
    return engine.load_reference(deepseek)[0]


@pytest.fixture(scope="module")
def tokens(deepseek: Path) -> dict[int, str]:
    return token_strings(json.loads(deepseek.read_bytes()))


@pytest.fixture
def verifier(fresh: Reference, tmp_path: Path) -> Verifier:
    return Verifier({fresh.sha256: fresh}, {fresh.sha256: "ds"}, Quarantine(tmp_path / "q"), lambda _: None)


def sampled_core(tokenizer: engine.Tokenizer, seam: Any = None, rate: float = 1.0) -> WorkerCore:
    return WorkerCore({"ds": tokenizer}, sampler=Sampler(rate, GENEROUS, seed=1), seam=seam)


def over_the_wire(sample: Sample) -> Sample:
    return unpack_sample(pack_sample(sample, 7, "repair-0"))[0]


# -- drawing ------------------------------------------------------------------------------------------------------


def test_the_rate_is_kept_and_seeded() -> None:
    def drawn(seed: int) -> list[bool]:
        sampler = Sampler(0.05, GENEROUS, seed)
        return [sampler.draw(1, 0.0) for _ in range(40_000)]

    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    assert 0.045 < sum(first) / len(first) < 0.055
    assert not any(Sampler(0.0, GENEROUS).draw(1, 0.0) for _ in range(1000))


def test_million_character_texts_do_not_starve_the_rest() -> None:
    budget = Budget(100_000)
    paid: Counter[int] = Counter()
    asked: Counter[int] = Counter()
    for turn in range(20_000):  # 200 seconds, a flood of large texts among small ones
        size = (1_000_000, 50_000, 1_000)[turn % 10 if turn % 10 < 2 else 2]
        asked[size] += 1
        paid[size] += budget.pay(size, turn / 100)
    assert paid[1_000] / asked[1_000] > 0.3  # 80 KB a second asked, a third of 100 is theirs
    assert paid[50_000] >= 100
    assert paid[1_000_000] >= 5
    assert sum(size * count for size, count in paid.items()) < 100_000 * 200 * 1.2


def test_a_budget_that_nobody_needs_goes_to_who_does() -> None:
    budget = Budget(100_000)
    paid = sum(budget.pay(1_000_000, second) for second in range(300))
    assert 25 <= paid <= 32  # all of it, not a third


@pytest.mark.parametrize("seed", range(20))
def test_the_outbox_stays_bounded(seed: int) -> None:
    dice = random.Random(seed)
    outbox = Outbox(samples=8, bytes=1000)
    now, offered = 0.0, 0
    for _ in range(500):
        now += dice.expovariate(1) * dice.choice((0.1, 30))
        if dice.random() < 0.6:
            offered += 1
            number = outbox.offer(dice.choice((10, 200, 3000)), now)
            if number is not None and dice.random() < 0.1:
                outbox.take_back(number)
        elif outbox.open:
            outbox.settle(dice.choice(list(outbox.open)))
        outbox.validate()
    assert outbox.sent + outbox.dropped >= offered
    assert outbox.dropped


def test_samples_travel_whole() -> None:
    sample = Sample("a" * 64, 3, "edit", b"text", 1, 2, "é".encode(), b"\1\0\0\0", 0, 1, b"\2\0\0\0", None, "edit", 9)
    sample.history, sample.emitted, sample.when_ms = [[1, "full", 0, 0, 4, 0, 0, 1]], 1.5, 1234
    packed = pack_sample(sample, 7, "repair-0")
    assert unpack_sample(packed) == (sample, 7, "repair-0")
    for broken in ([], packed[:4], [b"\xc1", *packed[1:]], [b"\x01", *packed[1:]], [b"\x80", *packed[1:]]):
        with pytest.raises(ValueError, match="no sample"):
            unpack_sample(broken)


# -- finding ------------------------------------------------------------------------------------------------------


def test_every_planted_fault_is_found_and_nothing_else(
    tokenizer: engine.Tokenizer, tokens: dict[int, str], verifier: Verifier, effort: float
) -> None:
    """1,000 session-shaped requests, every answer sampled, one in seven harmed, each of the five ways."""
    count = int(1000 * effort)
    planter = Planter(tokens, set(random.Random(3).sample(range(count), count // 7)), random.Random(4))
    core = sampled_core(tokenizer, planter)
    driver = Driver(core)
    found: set[int] = set()
    for asked in session_shaped(count, transcripts.built_steps(5), random.Random(6), 4_000):
        number = planter.number
        driver.send(asked)
        (sample,) = core.samples
        core.samples.clear()
        verdict = verifier.take(over_the_wire(sample), "repair-0")
        assert verdict is not None
        if not verdict.equal:
            found.add(number)
    assert found == planter.harmed.keys()
    assert set(planter.harmed.values()) == set(KINDS)
    assert verifier.counters["verified"] == count
    assert verifier.counters["mismatched"] == len(found) == len(verifier.demotions)
    assert len(verifier.quarantine.records()) == len(found)


def test_a_resplit_is_silent_but_for_its_ids(tokens: dict[int, str], fresh: Reference) -> None:
    ids = encode(fresh, transcripts.source_text(2_000), 0).tolist()
    harmed = Planter(tokens, set(), random.Random(1)).harm(ids, "resplit")
    assert harmed is not None
    assert harmed != ids
    assert len(harmed) == len(ids)
    assert fresh.decode(harmed, False) == fresh.decode(ids, False)


def test_a_patch_at_a_wrong_place_is_found(tokenizer: engine.Tokenizer, verifier: Verifier) -> None:
    moved = [0, 0]

    def seam(request: Request, reply: Reply) -> Reply:
        if reply.start is None or reply.stop is None:
            return reply
        return dataclasses.replace(reply, start=reply.start + moved[0], stop=reply.stop + moved[1])

    core = sampled_core(tokenizer, seam)
    driver = Driver(core)
    driver.send(Asked(0, "full", 0, 0, "some words, some more words"))
    for moved[:], right in (([0, 0], True), ([1, 1], False), ([0, 1], False), ([99, 99], False), ([1, 0], False)):
        core.samples.clear()
        driver.send(Asked(0, "append", 0, 0, " and others"))
        verdict = verifier.take(over_the_wire(core.samples[0]), "w")
        assert verdict is not None
        assert verdict.equal is right


FIVE = np.array([5], np.uint32)


class Liar:
    """An engine session that is wrong in one way, and else what it stands for."""

    def __init__(self, honest: engine.Session, **lies: Any) -> None:
        self._honest, self._lies = honest, lies

    def fork(self) -> Liar:
        return Liar(self._honest.fork(), **self._lies)

    def __getattr__(self, name: str) -> Any:
        lie = self._lies.get(name)
        honest = getattr(self._honest, name)
        return honest if lie is None else lambda *arguments: lie(honest, *arguments)


@pytest.mark.parametrize(
    "lies",
    [
        {"edit_packed": lambda honest, start, stop, new: honest(start - 1, stop - 1, new)},  # the text itself is wrong
        {"ids": lambda honest: np.concatenate([honest()[:1], honest()])},  # the ids were wrong before
        {
            "edit_packed": lambda honest, start, stop, new: (
                *honest(start, stop, new)[:2],
                packed_numbers(FIVE),
                "edit",
                1,
            )
        },
    ],
)
def test_an_engine_that_is_wrong_is_found(tokenizer: engine.Tokenizer, verifier: Verifier, lies: Any) -> None:
    core = sampled_core(tokenizer)
    driver = Driver(core)
    driver.send(Asked(0, "full", 0, 0, "one two three four five six"))
    held = core.sessions["", "s0"]
    held.engine = Liar(held.engine, **lies)
    core.samples.clear()
    driver.send(Asked(0, "edit", 14, 18, "4"))
    verdict = verifier.take(core.samples[0], "w")
    assert verdict is not None
    assert not verdict.equal
    (path,) = verifier.quarantine.records()
    record = json.loads(path.read_text())
    assert [step["op"] for step in record["history"]] == ["full"]
    assert (record["op"], record["path"], record["revision"]) == ("edit", "edit", 2)


def test_stateless_answers_are_checked_too(
    tokenizer: engine.Tokenizer, verifier: Verifier, tokens: dict[int, str]
) -> None:
    harm = [False]

    def seam(request: Request, reply: Reply) -> Reply:
        if not harm[0]:
            return reply
        if reply.count is not None:
            return dataclasses.replace(reply, count=reply.count + 1)
        *first, ids = [bytes(frame) for frame in reply.body]
        return dataclasses.replace(reply, body=[*first, ids[:-4] + b"\1\0\0\0"])

    core = sampled_core(tokenizer, seam)
    lengths = np.array([5, 0, 6], "<u4").tobytes()
    for number, (op, flags, body) in enumerate(
        [
            ("encode", 0, [b"Hello world"]),
            ("encode", 1, [b"Hello world"]),
            ("encode", 2, ["Hello <\uff5cend\u2581of\u2581sentence\uff5c>".encode()]),
            ("count", 0, [b"Hello world"]),
            ("batch", 0, [lengths, b"Hello world"]),
            ("batch", 0, [b"", b""]),
        ]
    ):
        for harm[0] in (False, True):
            request = Request(op, bytes([number, harm[0]]) + bytes(14), tokenizer="ds", flags=flags, body=body)
            assert core.handle(protocol.pack_request(request))[0] == "ok"
            verdicts = [verifier.take(over_the_wire(sample), "w") for sample in core.samples]
            assert len(verdicts) == (len(body[0]) // 4 if op == "batch" else 1)
            core.samples.clear()
            wrong = [verdict for verdict in verdicts if verdict is not None and not verdict.equal]
            assert len(wrong) == (harm[0] and bool(verdicts)), (op, harm)


def test_refused_and_resent_requests_leave_no_sample(tokenizer: engine.Tokenizer) -> None:
    core = sampled_core(tokenizer)
    driver = Driver(core)
    driver.send(Asked(0, "full", 0, 0, "text"))
    request = Request("edit", bytes(15) + b"e", session="s0", tokenizer="ds", body=[b"x"])
    request.revision, request.digest = driver._bases[0]
    request.start, request.stop = 3, 99
    core.samples.clear()
    assert core.handle(protocol.pack_request(request))[0] == "bad_request"
    request.revision += 1
    assert core.handle(protocol.pack_request(request))[0] == "stale"
    assert core.handle(protocol.pack_request(Request("encode", bytes(16), tokenizer="ds", body=[b"\xff"])))[0] != "ok"
    assert not core.samples


def test_sampling_never_harms_an_answer(tokenizer: engine.Tokenizer) -> None:
    core = sampled_core(tokenizer)
    driver = Driver(core)
    driver.send(Asked(0, "full", 0, 0, "text"))
    held = core.sessions["", "s0"]

    def broken(honest: Any) -> Any:
        raise MemoryError

    held.engine = Liar(held.engine, text=broken)
    core.samples.clear()
    assert driver.send(Asked(0, "append", 0, 0, " more")).code == "ok"
    assert not core.samples
    assert core.counters["shadow_faults"] == 1


# -- judging the judge --------------------------------------------------------------------------------------------


class Forgetful:
    """A reference that answers by its history: the second text and later ones wrong."""

    def __init__(self, honest: Reference) -> None:
        self._honest, self.sha256, self.asked = honest, honest.sha256, 0

    def encode(self, text: str, *flags: bool) -> Any:
        self.asked += 1
        ids = self._honest.encode(text, *flags)
        return ids if self.asked == 1 else ids[::-1]


def test_a_reference_with_a_history_accuses_nobody(
    tokenizer: engine.Tokenizer, fresh: Reference, tmp_path: Path
) -> None:
    renewed: list[str] = []

    def renew(sha256: str) -> Reference:
        renewed.append(sha256)
        return fresh

    forgetful: Any = Forgetful(fresh)
    verifier = Verifier({fresh.sha256: forgetful}, {}, Quarantine(tmp_path), renew)
    core = sampled_core(tokenizer)
    driver = Driver(core)
    for asked in (
        Asked(0, "full", 0, 0, "some text"),
        Asked(0, "append", 0, 0, " more"),
        Asked(0, "append", 0, 0, "!"),
    ):
        driver.send(asked)
    assert [verdict and verdict.equal for verdict in (verifier.take(one, "w") for one in core.samples)] == [True] * 3
    assert verifier.counters["unsteady"] == 1
    assert renewed == [fresh.sha256]
    assert not verifier.demotions
    assert not verifier.quarantine.records()


def test_what_cannot_be_checked_is_counted(tokenizer: engine.Tokenizer, verifier: Verifier) -> None:
    core = sampled_core(tokenizer)
    Driver(core).send(Asked(0, "full", 0, 0, "some text"))
    (sample,) = core.samples
    assert verifier.take(dataclasses.replace(sample, sha256="f" * 64), "w") is None
    assert verifier.take(dataclasses.replace(sample, payload=b"\xff"), "w") is None
    assert (verifier.counters["unverifiable"], verifier.counters["failed"]) == (1, 1)
    assert not verifier.demotions
    text, ids, note = rebuild(dataclasses.replace(sample, patch=b"123"))
    assert note
    assert not compare(sample, ids, note, encode(verifier.references[sample.sha256], text, 0)).equal


def test_a_record_that_fails_demotes_all_the_same(
    tokenizer: engine.Tokenizer, tokens: dict[int, str], verifier: Verifier
) -> None:
    core = sampled_core(tokenizer, Planter(tokens, {0}, random.Random(1)))
    Driver(core).send(Asked(0, "full", 0, 0, "some text"))
    (sample,) = core.samples
    verifier.take(dataclasses.replace(sample, history=[["too", "short"]]), "w")
    assert not verifier.quarantine.records()
    assert [demotion.sha256 for demotion in verifier.demotions] == [tokenizer.sha256]


def test_references_are_named_by_their_files(deepseek: Path, tokenizer: engine.Tokenizer, tmp_path: Path) -> None:
    made = load_verifier([f"a={deepseek}"], Quarantine(tmp_path))
    assert list(made.references) == [tokenizer.sha256]
    assert made.names == {tokenizer.sha256: "a"}
    again = made.renew(tokenizer.sha256)
    assert again is not None
    assert again is not made.references[tokenizer.sha256]


def test_a_tiktoken_reference_is_this_process_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256}
    shared = tiktoken.Encoding("tiny", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 257})
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: shared)
    made = load_verifier(["t=tiktoken:tiny"], Quarantine(tmp_path))
    tokenizer = engine.load(shared)
    assert list(made.references) == [tokenizer.sha256]
    assert made.references[tokenizer.sha256]._encoding is not shared  # type: ignore[attr-defined]
    assert made.renew(tokenizer.sha256) is not None
    core = WorkerCore({"ds": tokenizer}, sampler=Sampler(1.0, GENEROUS, 1))
    driver = Driver(core)
    driver.send(Asked(0, "full", 0, 0, "ab <|end|>"))
    driver.send(Asked(0, "append", 0, 0, "ab"))
    assert [verdict and verdict.equal for verdict in (made.take(one, "w") for one in core.samples)] == [True, True]


# -- demoting -----------------------------------------------------------------------------------------------------


def test_a_core_demotes_and_restores(tokenizer: engine.Tokenizer, fresh: Reference) -> None:
    core = sampled_core(tokenizer)
    driver = Driver(core)
    first = driver.send(Asked(0, "full", 0, 0, "some text"))
    assert first.path == "fresh"
    assert core.demote(Demotion(tokenizer.sha256, "why", 1))
    assert not core.demote(Demotion(tokenizer.sha256, "why again", 2))
    core.validate()
    assert not core.sessions  # its client is told to send the full text
    with pytest.raises(AssertionError, match="send the full text"):
        driver.send(Asked(0, "append", 0, 0, " more"))
    assert driver.send(Asked(0, "full", 0, 0, "some text more")).path == "reference"
    reply = driver.send(Asked(0, "append", 0, 0, "!"))
    assert reply.path == "reference"
    assert core.sessions["", "s0"].engine.ids().tolist() == encode(fresh, "some text more!", 0).tolist()
    assert core.describe()[0]["status"] == "native"  # as admitted
    assert core.restore(tokenizer.sha256)
    assert not core.restore(tokenizer.sha256)
    core.validate()
    assert driver.send(Asked(0, "full", 0, 0, "some text")).path == "fresh"
    assert core.demote(Demotion("f" * 64, "one that is not here", 1))
    core.validate()


def test_a_session_that_caught_itself_raises_an_alarm() -> None:
    content = json.dumps(description([split(r"[^ ]+| +")], merges=[("a", "b"), ("b", "c"), ("ab", "c")])).encode()
    made = HuggingFaceReference.from_json(content)
    compiled = admit(made, content)
    pairs = np.ones_like(compiled.native["pairs"])  # every position claims to be synchronizing
    damaged = engine.Tokenizer(made, dataclasses.replace(compiled, native=compiled.native | {"pairs": pairs}), "")
    core = WorkerCore({"ds": damaged})
    driver = Driver(core)
    driver.send(Asked(0, "full", 0, 0, "a"))
    assert not core.alarms
    driver.send(Asked(0, "append", 0, 0, "abc" * 1000))
    (alarm,) = core.alarms
    assert alarm.report.tokenizer_sha256 == damaged.sha256
    assert [step.op for step in alarm.history] == ["full", "append"]
    driver.send(Asked(0, "append", 0, 0, "abc"))
    assert len(core.alarms) == 1


def test_an_alarm_is_quarantined_and_told(tokenizer: engine.Tokenizer, tmp_path: Path) -> None:
    core = WorkerCore({"ds": tokenizer})
    shell = Shell(core, Settings("ipc:///nowhere", "repair-0"), Quarantine(tmp_path))
    sent: list[Envelope] = []
    shell._tell = sent.append  # type: ignore[method-assign, assignment]
    report = engine.MismatchReport(tokenizer.sha256, "e" * 64, 17, "not a piece boundary")
    shell._raise(Alarm(report, "append", 4, (Step(3, "full", 0, 0, 5, 0, 0, 2),)))
    record = json.loads(next(tmp_path.glob("mismatch-*.json")).read_text())
    assert (record["found_by"], record["content_sha256"], record["revision"]) == ("overlap", "e" * 64, 4)
    assert [step["op"] for step in record["history"]] == ["full"]
    (told,) = sent
    assert told.op == "demote"
    assert told.demotions == list(core.demoted.values())
    assert "not a piece boundary" in core.demoted[tokenizer.sha256].reason
    core.validate()
    core.restore(tokenizer.sha256)


def tells(instructions: Any, op: str) -> set[bytes]:
    return {one.worker for one in instructions if isinstance(one, Tell) and one.op == op}


def entry(sha256: str = "f" * 64) -> dict[str, str]:
    return {"name": "ds", "sha256": sha256, "status": "native", "reason": ""}


def test_the_router_tells_everybody_and_remembers() -> None:
    router = Router()
    sha256 = "f" * 64
    for name in (b"a", b"b"):
        router.on_ready(name, name.decode(), 1, 2, 500, [entry()], 0.0)
    router.on_verdicts(b"v", "verifier", 9, {"verified": 3})
    assert router.on_restore("ds", 50) == (0, [])
    assert router.on_restore("other", 50) == (None, [])
    out = router.on_demote(b"v", [Demotion(sha256, "wrong", 100)])
    assert tells(out, "demote") == {b"a", b"b", b"v"}
    assert tells(router.on_demote(b"a", [Demotion(sha256, "wrong again", 101)]), "demote") == {b"a"}
    (shown,) = router.tokenizers()
    assert (shown["status"], shown["reason"], "demoted" in shown) == ("reference", "wrong", True)
    assert router.stats()["demoted"] == [shown]
    assert router.stats()["shadow"] == {"verified": 3}
    assert tells(router.on_ready(b"c", "c", 2, 2, 500, [entry()], 0.0), "demote") == {b"c"}
    router.validate()
    lifted, out = router.on_restore("ds", 200)
    assert lifted == 1
    assert tells(out, "restore") == {b"a", b"b", b"c", b"v"}
    assert router.tokenizers() == [entry()]
    # What was wrong before the restore, and is reported only now, was what the operator looked at.
    out = router.on_demote(b"v", [Demotion(sha256, "wrong", 150)])
    assert (tells(out, "restore"), tells(out, "demote")) == ({b"v"}, set())
    out = router.on_ready(b"d", "d", 3, 2, 500, [entry()], 0.0, [Demotion(sha256, "wrong", 100)])
    assert tells(out, "restore") == {b"d"}
    out = router.on_demote(b"v", [Demotion(sha256, "wrong anew", 201)])
    assert tells(out, "demote") == {b"a", b"b", b"c", b"d", b"v"}
    router.validate()
    assert router.on_gone("verifier", 8, 0.0) == []
    assert router.stats()["shadow"]
    assert router.on_gone("verifier", 9, 0.0) == []
    assert router.stats()["shadow"] == {}
    assert b"v" not in tells(router.on_restore("ds", 300)[1], "restore")


def test_a_new_broker_learns_from_its_workers() -> None:
    router = Router()
    router.on_ready(b"a", "a", 1, 2, 500, [entry()], 0.0)
    out = router.on_ready(b"b", "b", 1, 2, 500, [entry()], 0.0, [Demotion("f" * 64, "wrong", 100)])
    assert tells(out, "demote") == {b"a", b"b"}
    assert router.on_restore("f" * 64, 101)[0] == 1
    router.validate()


@pytest.mark.parametrize("seed", range(50))
def test_whoever_comes_and_goes_all_workers_agree_with_the_broker(seed: int, tmp_path: Path) -> None:
    """Random histories: faults, restores, workers and brokers that restart, with what they know and without."""
    dice = random.Random(seed)
    router, path = Router(), tmp_path / "demotions.json"
    known: dict[bytes, dict[str, Demotion]] = {}  # of each connected worker
    names: dict[bytes, str] = {}
    hashes = ["a" * 64, "b" * 64]

    def deliver(instructions: Any) -> None:
        for one in instructions:
            for demotion in one.demotions if isinstance(one, Tell) and one.worker in known else ():
                if one.op == "demote":
                    known[one.worker].setdefault(demotion.sha256, demotion)
                else:
                    known[one.worker].pop(demotion.sha256, None)

    def join(name: str, knows: dict[str, Demotion]) -> None:
        identity = dice.randbytes(5)
        for old in [old for old, its in names.items() if its == name]:
            del names[old], known[old]
        known[identity], names[identity] = dict(knows), name
        entries = [{"name": sha256[0], "sha256": sha256, "status": "native", "reason": ""} for sha256 in hashes]
        deliver(router.on_ready(identity, name, 1, 2, 500, entries, 0.0, list(knows.values())))

    for now in range(1, 120):
        event = dice.random()
        if event < 0.3 or not known:
            name = dice.choice("xyz")
            kept = next((known[identity] for identity, its in names.items() if its == name), {})
            join(name, kept if dice.random() < 0.5 else {})
        elif event < 0.6:  # a wrong answer, perhaps one of before the last restore
            demotion = Demotion(dice.choice(hashes), "wrong", now - dice.choice((0, 0, 0, 5)))
            sender = dice.choice([*known, b"v"])
            if sender in known:
                known[sender].setdefault(demotion.sha256, demotion)
            deliver(router.on_demote(sender, [demotion]))
        elif event < 0.8:
            deliver(router.on_restore(dice.choice("ab"), now)[1])
        elif event < 0.85:
            demotions.save(path, router.demoted, router.restored)
            router = Router()
            if dice.random() < 0.5:
                router.demoted, router.restored = demotions.load(path)
            everybody = [(names[identity], knows) for identity, knows in known.items()]
            for name, knows in everybody:
                join(name, knows)
        router.validate()
        assert all(knows.keys() == router.demoted.keys() for knows in known.values()), now


def test_demotions_outlive_the_tier(tmp_path: Path) -> None:
    path = tmp_path / "new" / "demotions.json"
    assert demotions.load(path) == ({}, {})
    demoted, restored = {"a": Demotion("a", "why é", 5)}, {"b": Demotion("b", "", 6)}
    demotions.save(path, demoted, restored)
    assert demotions.load(path) == (demoted, restored)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    for damaged in ("", "{}", '{"demoted": [["a"]], "restored": []}', "[]"):
        path.write_text(damaged)
        with pytest.raises(demotions.DemotionsError, match="removing the file restores"):
            demotions.load(path)


def test_envelopes_carry_demotions() -> None:
    told = Envelope("demote", demotions=[Demotion("a", "x" * 5000, 5)])
    read = protocol.unpack_envelope(protocol.pack_envelope(told)).demotions
    assert read == [Demotion("a", "x" * protocol.REASON_MAX_BYTES, 5)]
    for wrong in ([1], [["a", "b"]], [["a", "b", "c"]], [["a", "b", True]]):
        with pytest.raises(WireError):
            protocol.unpack_envelope(protocol.pack_envelope(Envelope("demote", demotions=wrong)))  # type: ignore[arg-type]


# -- quarantine ---------------------------------------------------------------------------------------------------


def test_the_quarantine_is_bounded_and_private(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "q", max_records=5, max_bytes=2000)
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "demotions.json").write_text("kept")
    names = [quarantine.put({"number": number}, {}) for number in range(12)]
    assert [path.name for path in quarantine.records()] == names[-5:]
    quarantine.put({"long": "x" * 1500}, {})
    assert sum(path.stat().st_size for path in quarantine.records()) <= 2000
    assert stat.S_IMODE(quarantine.records()[0].stat().st_mode) == 0o600
    assert (tmp_path / "q" / "demotions.json").exists()
    assert quarantine.written == 13
    assert Quarantine(tmp_path).max_records == MAX_RECORDS


def test_text_is_kept_only_when_allowed(tmp_path: Path) -> None:
    for allowed in (False, True):
        quarantine = Quarantine(tmp_path / str(allowed), with_text=allowed)
        quarantine.put({"hash": "h"}, {"text": "secret"})
        quarantine.put({"hash": "h"}, {"text": "secret" * 2_000_000})
        first, second = (path.read_text() for path in quarantine.records())
        assert ("secret" in first) is allowed
        assert "secret" not in second


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    quarantine = Quarantine(tmp_path / "file" / "q")
    assert quarantine.put({}, {}) is None
    assert quarantine.failed == 1


def test_records_say_where_and_not_what(
    tokenizer: engine.Tokenizer, fresh: Reference, tokens: dict[int, str], tmp_path: Path
) -> None:
    text = "a secret that stays here"
    for allowed in (False, True):
        planter = Planter(tokens, {0}, random.Random(1), ["substitution"])
        core = sampled_core(tokenizer, planter)
        Driver(core).send(Asked(0, "full", 0, 0, text))
        quarantine = Quarantine(tmp_path / str(allowed), with_text=allowed)
        verifier = Verifier({fresh.sha256: fresh}, {fresh.sha256: "ds"}, quarantine, lambda _: None)
        verdict = verifier.take(over_the_wire(core.samples[0]), "repair-0")
        assert verdict is not None
        written = quarantine.records()[0].read_text()
        record = json.loads(written)
        assert ("secret" in written) is allowed
        assert ("ids_at_difference" in record) is allowed
        assert record["content_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert record["tokenizer_sha256"] == fresh.sha256
        assert record["first_difference"] == verdict.position
        assert record["emitted_ids"] == record["reference_ids"] == len(encode(fresh, text, 0))
        (demotion,) = verifier.demotions
        assert demotion.sha256 == fresh.sha256
        assert f"at id {verdict.position}" in demotion.reason
        assert quarantine.records()[0].name in demotion.reason
