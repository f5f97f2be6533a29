"""Random lives of sessions: appends, edits, forks and resets, each step compared with a fresh reference encode.

`Mirror` is what a session must be: a text, and a list of ids to which every splice is applied. The driver knows a
session only by the engine's face, so the same histories run wherever that face is offered.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st
from tokseam.kernels import engine

from . import hostile, shared_data
from .references import Reference


@dataclass
class Mirror:
    """A session, with the text and the ids that it must have. Raises AssertionError at the first difference."""

    session: engine.Session
    reference: Reference
    text: str
    ids: list[int]
    flags: tuple[bool, bool] = (False, False)
    story: str = ""

    @classmethod
    def start(
        cls, tokenizer: engine.Tokenizer, reference: Reference, flags: tuple[bool, bool] = (False, False)
    ) -> Mirror:
        session = tokenizer.session(add_special_tokens=flags[0], split_special_tokens=flags[1])
        return cls(session, reference, "", session.ids().tolist(), flags)

    def append(self, delta: str) -> None:
        self._apply(self.session.append(delta), self.text + delta, f"append({delta[:200]!r})")

    def edit(self, start: int, stop: int, replacement: str) -> None:
        text = self.text[:start] + replacement + self.text[stop:]
        self._apply(self.session.edit(start, stop, replacement), text, f"edit({start}, {stop}, {replacement[:200]!r})")

    def reset(self, text: str) -> None:
        self._apply(self.session.reset(text), text, f"reset({text[:200]!r})")

    def become(self, text: str) -> None:
        """Edit the one stretch that differs from `text`."""
        prefix = shared_prefix(self.text, text)
        old, new = self.text[prefix:], text[prefix:]
        suffix = shared_prefix(old[::-1], new[::-1])
        self.edit(prefix, len(self.text) - suffix, new[: len(new) - suffix])

    def fork(self) -> Mirror:
        return Mirror(
            self.session.fork(), self.reference, self.text, list(self.ids), self.flags, self.story + " fork()"
        )

    def check(self, whole: bool = True) -> None:
        """Compare with a full encode by the reference; with `whole` also the session's own text, ids and counts."""
        wanted = self.reference.ids(self.text, *self.flags)
        assert shared_data.difference(self.ids, wanted) == "", f"{self.story} on a text of {len(self.text)} characters"
        assert self.session.chars == len(self.text), self.story
        assert self.session.token_count == len(wanted), self.story
        if whole:
            assert self.session.ids().tolist() == wanted, self.story
            assert self.session.text() == self.text, self.story

    def _apply(self, splice: engine.Splice, text: str, step: str) -> None:
        assert 0 <= splice.start <= splice.stop <= len(self.ids), (step, splice)
        self.ids[splice.start : splice.stop] = splice.ids.tolist()
        self.text = text
        self.story = (self.story + " " + step)[-3_000:]


def shared_prefix(a: str, b: str) -> int:
    """Return how many characters two texts have in common at their start."""
    shortest = min(len(a), len(b))
    return next((at for at in range(shortest) if a[at] != b[at]), shortest)


def random_history(rng: random.Random, start: Mirror, steps: int, alphabet: list[str], most: int = 4) -> None:
    """Live `steps` random steps on up to `most` sessions that are forks of one, checking after every one."""
    alive = [start]
    for _ in range(steps):
        mirror = rng.choice(alive)
        size = len(mirror.text)
        kind = rng.random()
        if kind < 0.40:
            mirror.append(_delta(rng, alphabet))
        elif kind < 0.80:
            at = rng.randrange(size + 1)
            reach = rng.choice((0, 1, 2, rng.randrange(40), rng.randrange(size + 1)))
            replacement = "" if rng.random() < 0.3 else _delta(rng, alphabet)
            mirror.edit(at, min(size, at + reach), replacement)
        elif kind < 0.85 and size:
            at = rng.randrange(size)  # an edit that changes nothing, and one that only moves an end
            mirror.edit(at, at + 1, mirror.text[at])
            mirror.edit(size, size, "")
        elif kind < 0.97:
            twin = mirror.fork()
            twin.check()
            if len(alive) == most:
                alive.pop(rng.randrange(most))
            alive.append(twin)
        else:
            mirror.reset(hostile.hostile_text(rng, rng.randrange(60), alphabet))
        for other in alive:  # a step on one session must not be seen by its forks
            other.check()


def _delta(rng: random.Random, alphabet: list[str]) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(alphabet)
    if kind < 0.45:
        return hostile.any_character(rng)
    if kind < 0.55:
        return " plain words, and it's more of them\n"[rng.randrange(12) :]
    return hostile.hostile_text(rng, rng.randrange(1, 25), alphabet)


def drawn_history(
    data: st.DataObject, mirror: Mirror, texts: st.SearchStrategy[str], longest_edit: int | None = None
) -> None:
    """Have hypothesis draw a few appends and edits, of at most `longest_edit` code points, and check after each."""
    for _ in range(data.draw(st.integers(1, 4), label="steps")):
        size = len(mirror.text)
        if data.draw(st.booleans(), label="append"):
            mirror.append(data.draw(texts, label="delta"))
        else:
            start = data.draw(st.integers(0, size), label="start")
            furthest = size if longest_edit is None else min(size, start + longest_edit)
            stop = data.draw(st.integers(start, furthest), label="stop")
            mirror.edit(start, stop, data.draw(texts, label="replacement"))
        mirror.check()
