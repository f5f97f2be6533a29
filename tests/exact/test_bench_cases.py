"""The texts and shapes that the bench times are right before anybody times them: small sizes of every case."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from support import shared_data
from support.families import Family
from tokseam.client import Embedded
from tokseam.scripts import transcripts

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import beds, changes, contest, hostile_texts, peers, report, subjects, texts, timing
from bench.cases import hostile

SMALL_CHARS = 3_000
STRETCHES = 3


@pytest.mark.parametrize("kind", texts.KINDS)
def test_text_of_every_kind(family: Family, kind: str) -> None:
    corpus = texts.Corpus(kind, family.literals)
    before = ""
    for _ in range(STRETCHES):
        try:
            text = corpus.take(SMALL_CHARS)
        except texts.ExhaustedError:
            assert not shared_data.multi_texts(), "with ../shared/data every kind has some text"
            pytest.skip(f"no {kind} text on this machine")
        assert len(text) == SMALL_CHARS
        assert text != before, "a stretch is never given twice"
        before = text
        assert shared_data.difference(family.engine.encode(text).tolist(), family.reference.ids(text)) == ""


def test_an_exhausted_corpus_gives_nothing_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(texts.KINDS, "short", ("three words", lambda _literals: iter(["one ", "two ", "three"])))
    corpus = texts.Corpus("short")
    assert corpus.take(5) == "one t"
    with pytest.raises(texts.ExhaustedError, match="8 characters left"):
        corpus.take(9)
    assert corpus.take(8) == "wo three"


@pytest.mark.parametrize("kind", hostile_texts.KINDS)
def test_hostile_text(family: Family, kind: str) -> None:
    made = [hostile_texts.make(kind, SMALL_CHARS, number, family.literals) for number in range(2)]
    assert made[0] != made[1], "each run gets another text"
    for text in made:
        assert SMALL_CHARS - 20 <= len(text) <= SMALL_CHARS
        assert shared_data.difference(family.engine.encode(text).tolist(), family.reference.ids(text)) == ""


@pytest.mark.parametrize("kind", changes.STEPS)
def test_change_and_back(family: Family, kind: str) -> None:
    """Every way to change a session gives the reference's ids, and leaves the session where it stood."""
    whole = "".join(transcripts.transcript(60_000)[0])
    text = whole[:20_000]
    subject = subjects.Subject(family.name, family.source)
    subject.__dict__["reference"] = family.reference  # read already
    rng = random.Random(kind)
    for way in beds.ways(Embedded({"t": family.engine}), "ours", text, kind):
        for delta in (16, 1_400):
            step = changes.STEPS[kind](rng, whole, len(text), delta)
            assert step.applied(text) != text
            before, after = (beds.reference_ids(subject, whole) for whole in (text, step.applied(text)))
            assert beds.check(way, text, step, before, after) == ""
            assert way.session.text == text


def test_in_turn() -> None:
    assert [timing.in_turn(3, number) for number in range(3)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert timing.in_turn(0, 2) == [], "a bench of ours alone has no rivals"


def test_growth_exponent() -> None:
    rows = [{"chars": chars, "peers": {"x": {"us": {"cpu_p50": chars**2 / 7}}}} for chars in (10, 100, 1_000)]
    assert hostile.exponent(rows, "x") == pytest.approx(2.0)
    assert hostile.exponent(rows[:1], "x") is None


def test_difference_names_the_first_id() -> None:
    assert peers.difference([1, 2, 3], [1, 2, 3]) == ""
    assert "at id 1 of 3" in peers.difference([1, 9, 3], [1, 2, 3])
    assert "at id 2 of 3" in peers.difference([1, 2], [1, 2, 3])


def test_a_peer_that_differs_or_fails_is_reported_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_subject: subjects.Subject, _threads: int) -> tuple[peers.Encode, peers.ToIds, str]:
        return lambda _text: [0], lambda result: result, "list"

    def broken(_subject: subjects.Subject, _threads: int) -> tuple[peers.Encode, peers.ToIds, str]:
        raise ValueError("no such pipeline")

    monkeypatch.setitem(peers._LOADERS, "fastokens", ("numpy", wrong))
    monkeypatch.setitem(peers._LOADERS, "gigatoken", ("numpy", broken))
    monkeypatch.setitem(peers._LOADERS, "kitoken", ("no-such-package", wrong))
    subject = subjects.load("deepseek_v4")
    match = contest.Contest(subject, ["fastokens", "gigatoken", "kitoken"], without={"tokie": "it broke"})
    match.warm("three words of text")
    match.round("fresh", "three words of text, and more")
    row: dict[str, Any] = {"peers": match.result("fresh"), "text": "english"}
    assert row["peers"][peers.OURS]["differs"] == ""
    assert "differs at id" in row["peers"]["fastokens"]["differs"]
    assert row["peers"]["fastokens"]["us"], "shown, but marked"
    assert "no such pipeline" in row["peers"]["gigatoken"]["missing"]
    assert "not installed" in row["peers"]["kitoken"]["missing"]
    assert row["peers"]["tokie"]["missing"] == "it broke"
    assert report.best_peer(row) is None, "a peer whose ids differ is not the one to beat"
