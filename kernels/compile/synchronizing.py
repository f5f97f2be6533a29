"""Derive the synchronizing pairs of a pipeline from its automata (design 3.3; claims in kernels/README.md).

A pair of classes (a, b) is synchronizing when a text may be cut between an a and a b, whatever stands around them, and
the sides
encoded on their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from .automaton import DEAD, MATCH, START, STATE, Automaton
from .pipeline import Behavior

#: bool (classes, classes): [a, b]
Pairs = npt.NDArray[np.bool_]


def entered_by(automaton: Automaton) -> list[set[int]]:
    """For each class: the reachable states with threads that consuming it can lead to."""
    entered: list[set[int]] = [set() for _ in range(automaton.classes)]
    seen, stack = {START}, [START]
    while stack:
        state = stack.pop()
        for symbol in range(automaton.classes):
            target = int(automaton.transitions[state, symbol]) & STATE
            if target == DEAD:
                continue
            entered[symbol].add(target)
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return entered


def stage_pairs(automaton: Automaton, behavior: Behavior = "Isolated") -> tuple[Pairs, Pairs]:
    """Return (quiet, boundary) of one stage.

    quiet: uncrossed (no attempt that consumed a goes on over b) and neutral (every attempt decides about a match in
    the same way whether b or the end comes next). boundary: quiet, and a piece surely ends between a and b: not both
    can lie in text that no match covers, nor may a gap and a match that the stage merges meet there.
    """
    table, end = automaton.transitions, automaton.classes
    quiet = np.ones((end, end), dtype=bool)
    for a, states in enumerate(entered_by(automaton)):
        for state in states:
            row = table[state]
            quiet[a] &= (row[:end] & STATE) == DEAD
            quiet[a] &= (row[:end] & MATCH) == (row[end] & MATCH)
    gap = automaton.can_fail()
    before, behind = gap[:, None], gap[None, :]
    if behavior == "MergedWithPrevious":
        joined = before | np.zeros_like(behind)  # a gap takes the match, or the gap, behind it along
    elif behavior == "GapsDropped":
        joined = np.zeros_like(quiet)  # two gaps that meet are dropped together as they are apart
    elif behavior == "MergedWithNext":
        joined = behind | np.zeros_like(before)
    else:
        joined = before & behind
    return quiet, quiet & ~joined


def synchronizing_pairs(
    stages: Sequence[Automaton],
    behaviors: Sequence[Behavior],
    forbidden: Iterable[tuple[int, int]],
) -> Pairs:
    """Return the pairs at which every text may be cut.

    Stages run in order, each on the pieces of the one before. Up to the stage that makes the pair a boundary, each must
    be quiet about it; behind that stage the sides are pieces of their own, and no condition is left (a refinement of
    design 3.3). `forbidden` are pairs that added tokens rule out. What normalizers rule out is not known here.
    """
    classes = stages[0].classes
    result = np.zeros((classes, classes), dtype=bool)
    still_quiet = np.ones((classes, classes), dtype=bool)
    for stage, behavior in zip(stages, behaviors, strict=True):
        quiet, boundary = stage_pairs(stage, behavior)
        result |= still_quiet & boundary
        still_quiet &= quiet
    for a, b in forbidden:
        result[a, b] = False
    return result
