"""Texts that walk the compiled automata on purpose, and the count of what has been walked.

What there is to cover: every reachable transition of every stage's DFA (the end of the text included), and every
synchronizing pair behind every state that its first class can lead to. Some transitions of a later stage can't happen,
since an earlier one never lets such a piece through: they stay uncovered, and the report says how many.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokseam.kernels.compile.automaton import DEAD, MATCH, START, STATE, Automaton
from tokseam.kernels.compile.synchronizing import entered_by
from tokseam.kernels.compile.tables import Compiled


class Seam(NamedTuple):
    """A place where a synchronizing pair meets: the classes that lead up to it, its first one last; and its second."""

    left: tuple[int, ...]
    right: int


def paths(stage: Automaton, symbols: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return the shortest class string that leads from the start to each reachable state with threads."""
    found: dict[int, tuple[int, ...]] = {START: ()}
    queue = deque([START])
    while queue:
        state = queue.popleft()
        for symbol in symbols:
            target = int(stage.transitions[state, symbol]) & STATE
            if target != DEAD and target not in found:
                found[target] = (*found[state], symbol)
                queue.append(target)
    return found


def transition_strings(compiled: Compiled, rng: random.Random) -> Iterator[list[int]]:
    """Yield a class string for every reachable transition of every stage, with random contexts around it."""
    count = compiled.classes.count if compiled.classes else 0
    for stage in compiled.stages:
        for order in range(2):
            symbols = list(range(count))
            if order:
                rng.shuffle(symbols)  # another shortest way to the same states
            for path in paths(stage, symbols).values():
                yield [*_context(rng, count), *path]  # the end
                for symbol in range(count):
                    yield [*_context(rng, count), *path, symbol, *_context(rng, count)]


def seams(compiled: Compiled) -> list[Seam]:
    """Return every synchronizing pair behind every state of every stage that its first class can lead to."""
    found: dict[Seam, None] = {}
    if compiled.classes is None or compiled.pairs is None:
        return []
    symbols = range(compiled.classes.count)
    pairs = np.argwhere(compiled.pairs)
    for a, b in pairs.tolist():
        found[Seam((a,), b)] = None
    for stage in compiled.stages:
        ways = paths(stage, symbols)
        # For each class: one way into each state that it leads to.
        into: list[dict[int, tuple[int, ...]]] = [{} for _ in symbols]
        for state, path in ways.items():
            for symbol in symbols:
                target = int(stage.transitions[state, symbol]) & STATE
                if target != DEAD:
                    into[symbol].setdefault(target, (*path, symbol))
        entered = entered_by(stage)
        for a, b in pairs.tolist():
            for state in entered[a]:
                found[Seam(into[a][state], b)] = None
    return list(found)


def short_strings(count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield every class string of length 1, 2, ... as long as all of one length are at most `most`."""
    strings: list[tuple[int, ...]] = [()]
    while len(strings) * count <= most:
        strings = [(*string, number) for string in strings for number in range(count)]
        yield from strings


def _context(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(count) for _ in range(rng.choice((0, 0, 1, 2, 5)))]


class Coverage:
    """Which transitions and synchronizing pairs texts have walked so far. Bits are one flat array, to be sent about."""

    def __init__(self, compiled: Compiled | None) -> None:
        if compiled is not None and (compiled.classes is None or compiled.pairs is None):
            compiled = None  # a tokenizer over characters has neither states nor classes
        self._stages = compiled.stages if compiled else []
        self._sizes = [stage.transitions.size for stage in self._stages]
        self._classes = compiled.classes.count if compiled and compiled.classes else 0
        pairs = compiled.pairs if compiled else None
        pairs = np.zeros((0, 0), dtype=bool) if pairs is None else pairs
        #: Every place that counts: reachable transitions that consume or decide something, then the pairs.
        self.wanted: npt.NDArray[np.bool_] = np.concatenate(
            [*(reachable(stage).reshape(-1) for stage in self._stages), pairs.reshape(-1)]
        ).astype(bool)
        self.hit = np.zeros_like(self.wanted)

    @property
    def walks(self) -> bool:
        """Is there anything to walk?"""
        return bool(self._stages)

    def walk(self, numbers: Sequence[int]) -> None:
        """Count the transitions that the scan of a text of classes takes, stage by stage."""
        bounds, base = [(0, len(numbers))], 0
        for stage, size in zip(self._stages, self._sizes, strict=True):
            finer: list[tuple[int, int]] = []
            for begin, end in bounds:
                finer += self._scan(stage, base, numbers, begin, end)
            bounds, base = finer, base + size

    def cut(self, a: int, b: int) -> None:
        """Count a seam that was tried."""
        if not self._classes:
            return
        self.hit[sum(self._sizes) + a * self._classes + b] = True

    def _scan(self, stage: Automaton, base: int, numbers: Sequence[int], begin: int, end: int) -> list[tuple[int, int]]:
        table, width = stage.transitions, stage.transitions.shape[1]
        found: list[tuple[int, int]] = []
        at = gap = begin
        while at < end:
            state, last, here = START, -1, at
            while state != DEAD:
                symbol = numbers[here] if here < end else width - 1
                self.hit[base + state * width + symbol] = True
                entry = int(table[state, symbol])
                if entry & MATCH:
                    last = here
                state = entry & STATE
                here += 1
            if last < 0:
                at += 1
                continue
            if gap < at:
                found.append((gap, at))
            found.append((at, last))
            at = gap = last
        if gap < end:
            found.append((gap, end))
        return found

    def counts(self) -> dict[str, list[int]]:
        """Return hit and total: of transitions, and of synchronizing pairs."""
        parts = {"transitions": slice(0, sum(self._sizes)), "pairs": slice(sum(self._sizes), None)}
        return {
            name: [int((self.hit & self.wanted)[part].sum()), int(self.wanted[part].sum())]
            for name, part in parts.items()
        }


def reachable(stage: Automaton) -> npt.NDArray[np.bool_]:
    """Return which transitions a scan can take: those out of every state with threads that the start leads to."""
    wanted = np.zeros(stage.transitions.shape, dtype=bool)
    wanted[list(paths(stage, range(stage.classes)))] = True
    if not any(START in states for states in entered_by(stage)):
        wanted[START, -1] = False  # no attempt begins at the end
    return wanted
