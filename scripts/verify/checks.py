"""The comparisons of a campaign. Each takes inputs, counts what it compared, and returns the first divergence.

What is counted, and only when it came out of a comparison with a fresh reference:
- `ids`: one id of ours at its place in the reference's list;
- `boundaries`: one start of a piece, likewise. What the engine took from its own reference is not counted;
- `offsets`: one span of an id, likewise;
- `cuts`: one synchronizing position at which the answers for the sides, joined, were compared with the reference's for
  the whole: its own answers for the sides (ids and boundaries), and in a second check ours, made on threads;
- `steps`: one change of a session, after which the ids that its patches add up to were compared as a whole (their
  number goes to `ids`).

Limits: texts come from elsewhere (rounds.py); making a divergence small is shrink.py's business.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np

from .oracle import Answer
from .subject import Subject

#: What counts as a check, in the order in which reports list them.
KINDS = ("boundaries", "ids", "offsets", "cuts", "steps")

#: Ids, starts or spans of either side that a divergence shows around the first difference.
SHOWN = 8

#: Threads that encode the chunks of one text side by side.
CHUNK_THREADS = 4


@dataclass
class Tally:
    """Checks done, by kind."""

    done: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def add(self, kind: str, count: int) -> None:
        self.done[kind] += count

    def merge(self, other: dict[str, int]) -> None:
        for kind, count in other.items():
            self.done[kind] += count

    @property
    def total(self) -> int:
        return sum(self.done.values())


@dataclass
class Divergence:
    """One difference: what was compared, of which input, and both results around the first place that differs.

    check: 'full', 'cut', 'chunks' or 'session'; level: 'ids', 'boundaries', 'offsets', 'text', 'proof' or 'error'.
    """

    check: str
    level: str
    input: dict[str, Any]
    ours: str
    reference: str

    def same_kind(self, other: Divergence | None) -> bool:
        return other is not None and (self.check, self.level) == (other.check, other.level)


def check_texts(subject: Subject, texts: Sequence[str], tally: Tally, spans: bool = True) -> Divergence | None:
    """Compare full encodes: ids, starts of pieces, and spans."""
    answers = _answers(subject, texts, spans)
    claimed: list[list[int]] = []
    for text, answer in zip(texts, answers, strict=True):
        found = _compare(subject, text, answer, tally, claimed)
        if found:
            return found
    if answers and answers[0].starts is None:
        wrong = subject.oracle.wrong_starts(texts, claimed)
        if wrong is not None:
            shown = str([texts[wrong][a:b] for a, b in _bounds(claimed[wrong], texts[wrong])[:SHOWN]])
            return Divergence("full", "boundaries", {"text": texts[wrong]}, shown, "cuts otherwise")
        tally.add("boundaries", sum(map(len, claimed)))
    return None


def _compare(subject: Subject, text: str, answer: Answer, tally: Tally, claimed: list[list[int]]) -> Divergence | None:
    tokenizer, what = subject.tokenizer, {"text": text}
    try:
        ids = tokenizer.encode(text).tolist()
        if ids != answer.ids:
            return Divergence("full", "ids", what, *_around(ids, answer.ids))
        tally.add("ids", len(ids))
        if answer.starts is not None or subject.native:
            subject.own.take()
            starts = tokenizer.pieces(text).tolist()
            if answer.starts is None:
                claimed.append(starts)
            elif starts != answer.starts:
                return Divergence("full", "boundaries", what, *_around(starts, answer.starts))
            else:
                tally.add("boundaries", len(starts) - subject.own.take())
        if answer.spans is not None:
            subject.own.take()
            spans = tokenizer.offsets(text)
            if not np.array_equal(spans, answer.spans):
                return Divergence("full", "offsets", what, *_around(spans.tolist(), answer.spans.tolist()))
            tally.add("offsets", len(spans) - subject.own.take())
    except Exception as error:
        return Divergence("full", "error", what, f"{type(error).__name__}: {error}", "")
    return None


def check_starts(subject: Subject, texts: Sequence[str], tally: Tally) -> Divergence | None:
    """Compare starts of pieces alone, of texts whose ids need not be known: cheap, so there can be many."""
    wanted = subject.oracle.starts(texts)
    if wanted is None:
        return check_texts(subject, texts, tally, spans=False)
    for text, starts in zip(texts, wanted, strict=True):
        subject.own.take()
        found = subject.tokenizer.pieces(text).tolist()
        if found != starts:
            return Divergence("full", "boundaries", {"text": text}, *_around(found, starts))
        tally.add("boundaries", len(found) - subject.own.take())
    return None


def check_flags(
    subject: Subject, texts: Sequence[str], tally: Tally, add_special: bool, split_special: bool
) -> Divergence | None:
    """Compare the ids of full encodes under other flags."""
    for text, wanted in zip(texts, subject.oracle.ids(texts, add_special, split_special), strict=True):
        what = {"text": text, "add_special_tokens": add_special, "split_special_tokens": split_special}
        ids = subject.tokenizer.encode(
            text, add_special_tokens=add_special, split_special_tokens=split_special
        ).tolist()
        if ids != wanted:
            return Divergence("flags", "ids", what, *_around(ids, wanted))
        tally.add("ids", len(ids))
    return None


def check_cuts(subject: Subject, inputs: Sequence[tuple[str, Sequence[int]]], tally: Tally) -> Divergence | None:
    """Compare the reference with itself: the answers for the parts of a text, joined, and the one for the whole.

    This tries the theorem of synchronizing pairs without the engine's encoder. Not done for tokenizers that treat the
    start of every text specially: there a part is no text of its own.
    """
    if not subject.oracle.sides_stand_alone:
        return None
    texts: list[str] = []
    for text, cuts in inputs:
        texts.append(text)
        texts += [text[a:b] for a, b in _bounds([0, *cuts], text)]
    answers = iter(_answers(subject, texts, False))
    for text, cuts in inputs:
        whole = next(answers)
        ids: list[int] = []
        starts: list[int] = []
        for begin, _ in _bounds([0, *cuts], text):
            part = next(answers)
            ids += part.ids
            starts += [begin + start for start in part.starts or ()]
        what = {"text": text, "cuts": list(cuts)}
        if ids != whole.ids:
            return Divergence("cut", "ids", what, *_around(ids, whole.ids))
        if subject.cuts_are_boundaries and whole.starts is not None and starts != whole.starts:
            return Divergence("cut", "boundaries", what, *_around(starts, whole.starts))
        tally.add("cuts", len(cuts))
    return None


def check_chunks(subject: Subject, inputs: Sequence[tuple[str, Sequence[int]]], tally: Tally) -> Divergence | None:
    """Encode the chunks of each text on threads, join them, and compare with the reference's answer for the whole."""
    answers = _answers(subject, [text for text, _ in inputs], False)
    tokenizer = subject.tokenizer

    def encode(chunk: tuple[int, int], text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text[chunk[0] : chunk[1]], continued=chunk[0] > 0).tolist()
        return ids

    def starts_of(chunk: tuple[int, int], text: str) -> list[int]:
        starts: list[int] = (chunk[0] + tokenizer.pieces(text[chunk[0] : chunk[1]])).tolist()
        return starts

    with ThreadPoolExecutor(CHUNK_THREADS) as pool:
        for (text, cuts), answer in zip(inputs, answers, strict=True):
            bounds = _bounds([0, *cuts], text)
            what = {"text": text, "cuts": list(cuts)}
            ids = list(chain.from_iterable(pool.map(encode, bounds, repeat(text))))
            if ids != answer.ids:
                return Divergence("chunks", "ids", what, *_around(ids, answer.ids))
            tally.add("ids", len(ids))
            tally.add("cuts", len(cuts))
            if answer.starts is None or not (subject.cuts_are_boundaries and subject.oracle.sides_stand_alone):
                continue
            subject.own.take()
            starts = list(chain.from_iterable(pool.map(starts_of, bounds, repeat(text))))
            if starts != answer.starts:
                return Divergence("chunks", "boundaries", what, *_around(starts, answer.starts))
            tally.add("boundaries", len(starts) - min(len(starts), subject.own.take()))
    return None


#: One step of a history: what, which of the living sessions, two numbers that choose a range, and a text.
Step = tuple[str, int, int, int, str]


def check_history(
    subject: Subject, steps: Sequence[Step], tally: Tally, flags: tuple[bool, bool] = (False, False)
) -> Divergence | None:
    """Live a history on sessions and their forks; compare the ids that the patches add up to after every step."""
    what = {"steps": [list(step) for step in steps], "add_special_tokens": flags[0], "split_special_tokens": flags[1]}
    before = subject.tokenizer.mismatches
    session = subject.tokenizer.session(add_special_tokens=flags[0], split_special_tokens=flags[1])
    alive = [(session, "", session.ids().tolist())]
    lived: list[tuple[str, list[int]]] = []
    for at, (kind, which, a, b, new) in enumerate(steps):
        session, text, mirror = alive[which % len(alive)]
        if kind == "fork":
            alive = [*alive[-3:], (session.fork(), text, list(mirror))]
            continue
        start = a % (len(text) + 1)
        stop = min(len(text), start + b)
        try:
            if kind == "reset":
                text, splice = new, session.reset(new)
            elif kind == "append":
                text, splice = text + new, session.append(new)
            else:
                text, splice = text[:start] + new + text[stop:], session.edit(start, stop, new)
        except Exception as error:
            return Divergence("session", "error", what, f"step {at}: {type(error).__name__}: {error}", "")
        if not 0 <= splice.start <= splice.stop <= len(mirror):
            return Divergence("session", "ids", what, f"step {at}: patch {splice.start}:{splice.stop}", "")
        mirror[splice.start : splice.stop] = splice.ids.tolist()
        alive[which % len(alive)] = (session, text, mirror)
        lived.append((text, list(mirror)))
        if session.chars != len(text) or session.token_count != len(mirror):
            return Divergence("session", "text", what, f"step {at}: {session.chars} chars", f"{len(text)}")
    for session, text, mirror in alive:
        if session.text() != text:
            return Divergence("session", "text", what, repr(session.text()[:80]), repr(text[:80]))
        if session.ids().tolist() != mirror:
            return Divergence("session", "ids", what, *_around(session.ids().tolist(), mirror))
    wanted = subject.oracle.ids([text for text, _ in lived], *flags)
    for (_, mirror), ids in zip(lived, wanted, strict=True):
        if mirror != ids:
            return Divergence("session", "ids", what, *_around(mirror, ids))
        tally.add("ids", len(ids))
        tally.add("steps", 1)
    if subject.tokenizer.mismatches != before:
        return Divergence("session", "proof", what, subject.tokenizer.reports[-1].what, "no mismatch")
    return None


def draw_cuts(rng: random.Random, subject: Subject, text: str) -> list[int]:
    """Draw synchronizing positions of a text: one, a few, or all of them."""
    cuts: list[int] = subject.tokenizer.cuts(text).tolist()
    kind = rng.random()
    if kind < 0.2:
        return cuts
    return sorted(rng.sample(cuts, min(len(cuts), rng.choice((1, 2, 5, 30, len(cuts) // 2 + 1)))))


def _bounds(starts: Sequence[int], text: str) -> list[tuple[int, int]]:
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _around(ours: Sequence[Any], wanted: Sequence[Any]) -> tuple[str, str]:
    shared = min(len(ours), len(wanted))
    at = next((index for index in range(shared) if ours[index] != wanted[index]), shared)
    begin = max(0, at - 2)
    return tuple(  # type: ignore[return-value]
        f"at {at} of {len(side)}: {list(side[begin : begin + SHOWN])}" for side in (ours, wanted)
    )


def _answers(subject: Subject, texts: Sequence[str], spans: bool) -> list[Answer]:
    return subject.oracle.answers(texts, spans)
