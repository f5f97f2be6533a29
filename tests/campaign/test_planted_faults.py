"""The campaign is tried itself: faults are planted one by one; each must be caught within a stated number of checks.

A fault is planted in the compiled tables of a sound tokenizer, after its admission, or in what its sessions return. The
campaign sees the damaged tables alone, as it would after a fault of the compiler: it has only the fresh reference to
tell it. `CHECKS` states after how many checks, of all kinds together, each must be caught.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.synthetic import added, description, split
from tokseam.kernels import engine
from tokseam.kernels.compile.pipeline import Stage
from tokseam.kernels.compile.regex_syntax import Choice, parse
from tokseam.kernels.compile.tables import Compiled, compile_pipeline
from tokseam.scripts.verify.checks import Divergence, Tally
from tokseam.scripts.verify.corpus import Corpus
from tokseam.scripts.verify.rounds import Rounds
from tokseam.scripts.verify.shrink import shrink
from tokseam.scripts.verify.subject import Subject, from_json
from tokseam.scripts.verify.walks import Coverage

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MERGES = [
    *(("t", "h"), ("th", "e"), (" ", "the"), ("i", "n"), ("a", "b"), ("b", "c"), ("ab", "c"), ("o", "r"), ("e", "r")),
    *(("'", "s"), ("'", "r"), ("'r", "e"), (" ", " "), ("  ", "  "), (" ", "\n"), ("-", "-"), ("=", "="), ("r", "e")),
    *(("s", "e"), ("l", "f"), ("se", "lf"), (" ", "a"), (".", "\n"), ("/", "/"), ("'", "l")),
]
#: No two digits merge, so where digits are parted does not show in the ids.
LITERALS = [added("<|end|>", 400), added("<|end", 401, special=False), added("#!x", 402, special=False)]

#: Checks within which each fault must be caught (several times what it takes on average; the order in which a seed
#: comes to the round that shows a fault varies), and the characters or steps that its smallest input may have.
CHECKS: dict[str, tuple[int, int]] = {
    "a pair too many: letter, letter": (300_000, 2),
    "a pair too many: space, letter": (300_000, 3),
    "a pair too many: wide space, slash": (300_000, 3),
    "a wrong class: U+00AA": (5_000_000, 3),  # its neighbours are of the wrong class too, so it is no border of a run
    "a wrong class: q": (300_000, 3),
    "a wrong class: U+3007": (300_000, 3),
    "a wrong class: U+E0100": (300_000, 3),
    "a swapped merge rank": (5_000_000, 3),
    "a missed contraction: 's": (3_000_000, 3),
    "a missed contraction: 've": (3_000_000, 4),
    "a boundary that no merge spans": (300_000, 3),
    "a dropped added token": (10_000, 8),
    "a patch that starts one late": (5_000_000, 3),
    "a patch that stops one early": (5_000_000, 3),
    "an edit that reaches one too far": (5_000_000, 3),
}


@pytest.fixture(scope="module")
def sound() -> Subject:
    described = description([split(PATTERN)], merges=MERGES, added_tokens=LITERALS)
    subject = from_json("planted", json.dumps(described).encode())
    assert subject.native, subject.tokenizer.reason
    return subject


def damaged(sound: Subject, compiled: Compiled) -> Subject:
    return dataclasses.replace(sound, compiled=compiled, tokenizer=engine.Tokenizer(sound.own, compiled, ""))


def with_pair(sound: Subject, a: str, b: str) -> Subject:
    compiled = sound.compiled
    assert compiled is not None
    assert compiled.classes is not None
    assert compiled.pairs is not None
    pairs = compiled.pairs.copy()
    assert not pairs[compiled.classes.of(a), compiled.classes.of(b)]
    pairs[compiled.classes.of(a), compiled.classes.of(b)] = True
    native = compiled.native | {"pairs": np.ascontiguousarray(pairs, dtype=np.uint8)}
    return damaged(sound, dataclasses.replace(compiled, pairs=pairs, native=native))


def with_class(sound: Subject, char: str, like: str) -> Subject:
    compiled = sound.compiled
    assert compiled is not None
    assert compiled.classes is not None
    class_of = compiled.classes.class_of.copy()
    assert class_of[ord(char)] != class_of[ord(like)]
    class_of[ord(char)] = class_of[ord(like)]
    classes = dataclasses.replace(compiled.classes, class_of=class_of)
    return damaged(
        sound, dataclasses.replace(compiled, classes=classes, native=compiled.native | {"class_of": class_of})
    )


def recompiled(sound: Subject, **changes: Any) -> Subject:
    assert sound.compiled is not None
    return damaged(sound, compile_pipeline(dataclasses.replace(sound.compiled.pipeline, **changes)))


def with_swapped_ranks(sound: Subject) -> Subject:
    assert sound.compiled is not None
    merges = sound.compiled.pipeline.merges.copy()
    first, second = MERGES.index(("a", "b")), MERGES.index(("b", "c"))
    merges[[first, second], 2] = merges[[second, first], 2]
    return recompiled(sound, merges=merges)


def without_contraction(sound: Subject, letters: str) -> Subject:
    tree = parse(PATTERN.replace(f"|'{letters}" if letters != "s" else "'s|", ""), "onig")
    assert isinstance(tree, Choice)
    return recompiled(sound, stages=[Stage(tree)])


def with_other_digits(sound: Subject) -> Subject:
    return recompiled(sound, stages=[Stage(parse(PATTERN.replace("{1,3}", "{1,2}"), "onig"))])


def without_literal(sound: Subject) -> Subject:
    assert sound.compiled is not None
    return recompiled(sound, added_tokens=[t for t in sound.compiled.pipeline.added_tokens if t.content != "#!x"])


class OffByOne(engine.Tokenizer):
    """A tokenizer whose sessions err by one where a patch leaves ids in front of it."""

    fault = ""

    def session(self, **flags: bool) -> Any:
        return _Session(super().session(**flags), self.fault)


class _Session:
    def __init__(self, inner: Any, fault: str) -> None:
        self._inner = inner
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def fork(self) -> _Session:
        return _Session(self._inner.fork(), self._fault)

    def append(self, delta: str) -> engine.Splice:
        return self._spoiled(self._inner.append(delta))

    def edit(self, start: int, stop: int, replacement: str) -> engine.Splice:
        if self._fault == "reach" and stop > start + 1:
            stop -= 1
        return self._spoiled(self._inner.edit(start, stop, replacement))

    def _spoiled(self, splice: engine.Splice) -> engine.Splice:
        if self._fault == "start" and splice.start < splice.stop:
            return splice._replace(start=splice.start + 1)
        if self._fault == "stop" and splice.stop > splice.start:
            return splice._replace(stop=splice.stop - 1)
        return splice


def with_session_fault(sound: Subject, fault: str) -> Subject:
    tokenizer = OffByOne(sound.own, sound.compiled, "")
    tokenizer.fault = fault
    return dataclasses.replace(sound, tokenizer=tokenizer)


FAULTS: dict[str, Callable[[Subject], Subject]] = {
    "a pair too many: letter, letter": lambda s: with_pair(s, "a", "b"),
    "a pair too many: space, letter": lambda s: with_pair(s, " ", "a"),
    "a pair too many: wide space, slash": lambda s: with_pair(s, "\u3000", "/"),
    "a wrong class: U+00AA": lambda s: with_class(s, "\u00aa", "/"),
    "a wrong class: q": lambda s: with_class(s, "q", "1"),
    "a wrong class: U+3007": lambda s: with_class(s, "\u3007", "a"),
    "a wrong class: U+E0100": lambda s: with_class(s, "\U000e0100", "a"),
    "a swapped merge rank": with_swapped_ranks,
    "a missed contraction: 's": lambda s: without_contraction(s, "s"),
    "a missed contraction: 've": lambda s: without_contraction(s, "ve"),
    "a boundary that no merge spans": with_other_digits,
    "a dropped added token": without_literal,
    "a patch that starts one late": lambda s: with_session_fault(s, "start"),
    "a patch that stops one early": lambda s: with_session_fault(s, "stop"),
    "an edit that reaches one too far": lambda s: with_session_fault(s, "reach"),
}


def campaign(subject: Subject, seed: int, most: int) -> tuple[Divergence | None, int]:
    """Run rounds until a divergence or `most` checks."""
    rounds, tally, coverage = Rounds(subject, Corpus(None), seed), Tally(), Coverage(subject.compiled)
    number = 0
    while tally.total < most:
        found = rounds.run(number, tally, coverage)
        if found:
            return shrink(subject, found, 20), tally.total
        number += 1
    return None, tally.total


@pytest.mark.parametrize("fault", CHECKS)
def test_planted(fault: str, sound: Subject, request: pytest.FixtureRequest) -> None:
    most, size = CHECKS[fault]
    subject = FAULTS[fault](sound)
    found, checks = campaign(subject, request.config.getoption("--seed"), most)
    assert found is not None, f"not caught in {checks:,} checks"
    smallest = found.input.get("text") or found.input.get("steps")
    print(f"{fault}: {checks:,} checks; {found.check}, {found.level}: {smallest!a}; {found.ours} / {found.reference}")
    assert smallest is not None
    assert len(smallest) <= size
    if fault == "a boundary that no merge spans":
        assert found.level == "boundaries", "the ids can't show it"


def test_without_a_fault_nothing_is_found(sound: Subject, request: pytest.FixtureRequest) -> None:
    found, checks = campaign(sound, request.config.getoption("--seed"), 1_000_000)
    assert found is None, found
    assert checks >= 1_000_000


def test_the_boundary_that_no_merge_spans_leaves_the_ids_alone(sound: Subject) -> None:
    subject = with_other_digits(sound)
    assert subject.tokenizer.encode("1234").tolist() == sound.tokenizer.encode("1234").tolist()
    assert subject.tokenizer.pieces("1234").tolist() != sound.tokenizer.pieces("1234").tolist()
