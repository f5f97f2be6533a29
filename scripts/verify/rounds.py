"""What a campaign does, round by round: a pure function of (subject, corpus, seed, number), so that any process can do
any round, a campaign can be resumed, and a divergence can be found again.

Even rounds go through what can be listed (systematic.py) while any of it is left; the others draw texts at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from . import systematic
from .alphabet import HARD, Alphabet, class_text, hard_text, literal_parts, mutated
from .checks import (
    Divergence,
    Step,
    Tally,
    check_chunks,
    check_cuts,
    check_flags,
    check_history,
    check_starts,
    check_texts,
    draw_cuts,
)
from .corpus import Corpus
from .subject import Subject
from .walks import Coverage

#: Characters of text that a round hands to the reference, about: a third of a second of its work.
ROUND_CHARS = 120_000
#: Characters of a stretch in a remixed text, on average.
REMIX_CHARS = 12


class Rounds:
    """The rounds of one campaign."""

    def __init__(self, subject: Subject, corpus: Corpus, seed: int) -> None:
        self.subject = subject
        self.alphabet = Alphabet(subject.compiled.classes if subject.compiled else None)
        self.parts = [*HARD, *literal_parts(subject.literals)]
        self.systematic = systematic.tasks(subject, self.alphabet, seed)
        self._corpus = corpus
        self._seed = seed

    def listed(self, number: int) -> int | None:
        """Return which listed task a round does, or None for a random round."""
        index, odd = divmod(number, 2)
        return None if odd or index >= len(self.systematic) else index

    def run(self, number: int, tally: Tally, coverage: Coverage) -> Divergence | None:
        """Do one round. Returns the first divergence of it, or None."""
        rng = random.Random(f"{self._seed} {number}")
        index = self.listed(number)
        if index is not None:
            return self._listed(self.systematic[index], tally, coverage)
        kind = rng.random()
        if not self.subject.native:
            return self._histories(rng, tally) if kind < 0.5 else self._flags(rng, tally)
        if kind < 0.35:
            return check_starts(self.subject, [self._remixed(rng) for _ in range(4)], tally)
        if kind < 0.55:
            return self._full(rng, tally, coverage)
        if kind < 0.60:
            return self._flags(rng, tally)
        if kind < 0.73:
            return self._parted(rng, tally, coverage, check_cuts)
        if kind < 0.83:
            return self._parted(rng, tally, coverage, check_chunks)
        return self._histories(rng, tally)

    def _listed(self, task: systematic.Task, tally: Tally, coverage: Coverage) -> Divergence | None:
        texts, cuts = task.make()
        found = check_texts(self.subject, texts, tally)
        if found is None and any(cuts):
            inputs = [(text, at) for text, at in zip(texts, cuts, strict=True) if at]
            found = check_cuts(self.subject, inputs, tally)
            self._count_cuts(inputs, coverage)
        if task.walks:
            self._count_walks(texts, coverage)
        return found

    def _full(self, rng: random.Random, tally: Tally, coverage: Coverage) -> Divergence | None:
        length = rng.choice((30, 200, 2_000, 30_000))
        texts = [self._text(rng, length) for _ in range(max(1, ROUND_CHARS // length))]
        if rng.random() < 0.3:  # text that the normalizer leaves alone, so that its boundaries are the engine's own
            texts = [self.subject.oracle.normalized(text) for text in texts]
        if length == 30:
            self._count_walks(texts[:100], coverage)
        return check_texts(self.subject, texts, tally, spans=rng.random() < 0.5)

    def _flags(self, rng: random.Random, tally: Tally) -> Divergence | None:
        texts = [self._text(rng, 100) for _ in range(ROUND_CHARS // 400)]
        add, split = rng.choice(((True, False), (False, True), (True, True)))
        return check_flags(self.subject, texts, tally, add, split)

    def _parted(
        self,
        rng: random.Random,
        tally: Tally,
        coverage: Coverage,
        check: Callable[[Subject, list[tuple[str, list[int]]], Tally], Divergence | None],
    ) -> Divergence | None:
        length = rng.choice((20, 200, 4_000, 20_000))
        texts = [self._text(rng, length) for _ in range(max(1, ROUND_CHARS // 2 // length))]
        inputs = [(text, cuts) for text in texts if (cuts := draw_cuts(rng, self.subject, text))]
        found = check(self.subject, inputs, tally)
        if check is check_cuts:
            self._count_cuts(inputs, coverage)
        return found

    def _histories(self, rng: random.Random, tally: Tally) -> Divergence | None:
        spent = 0
        while spent < ROUND_CHARS:
            size = rng.choice((0, 60, 1_500, 4_000, 12_000))
            steps = self._history(rng, size)
            flags = (rng.random() < 0.2, rng.random() < 0.2)
            found = check_history(self.subject, steps, tally, flags)
            if found:
                return found
            spent += (size + 300) * len(steps)
        return None

    def _history(self, rng: random.Random, size: int) -> list[Step]:
        steps: list[Step] = [("reset", 0, 0, 0, self._text(rng, size) if size else "")]
        for _ in range(rng.randint(4, 16)):
            kind = rng.choices(("append", "edit", "fork", "reset"), (45, 40, 12, 3))[0]
            length = rng.choice((1, 1, 3, 20, 20, 200, 1_500 if size > 1_000 else 40))
            new = "" if kind == "fork" or (kind == "edit" and rng.random() < 0.3) else self._text(rng, length)
            reach = rng.choice((0, 1, 2, 40, rng.randrange(size + 2)))
            steps.append((kind, rng.randrange(4), rng.randrange(size + 50), reach, new))
        return steps

    def _text(self, rng: random.Random, length: int) -> str:
        kind = rng.random()
        if kind < 0.30:
            return class_text(rng, self.alphabet, length)
        if kind < 0.55:
            return hard_text(rng, self.parts, max(1, length // 2))
        text = self._corpus.draw(rng, length)
        return text if kind < 0.75 else mutated(rng, text, self.alphabet, self.parts)

    def _remixed(self, rng: random.Random) -> str:
        """Return a long text of short stretches of a few others, so that many neighbours meet for little drawing."""
        drawn = [self._text(rng, 3_000) for _ in range(3)]
        parts: list[str] = []
        for _ in range(ROUND_CHARS // 2 // REMIX_CHARS):
            text = rng.choice(drawn)
            at = rng.randrange(len(text) + 1)
            parts.append(text[at : at + rng.randint(1, 2 * REMIX_CHARS)])
        text = "".join(parts)
        return self.subject.oracle.normalized(text) if rng.random() < 0.7 else text

    def _count_walks(self, texts: list[str], coverage: Coverage) -> None:
        for text in texts if coverage.walks else ():
            coverage.walk(self.alphabet.of(self.subject.oracle.normalized(text)))

    def _count_cuts(self, inputs: list[tuple[str, list[int]]], coverage: Coverage) -> None:
        for text, cuts in inputs:
            numbers = self.alphabet.of(text)
            for cut in cuts:
                coverage.cut(numbers[cut - 1], numbers[cut])
