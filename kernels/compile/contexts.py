"""Derive cuts that three characters decide, where two do not, and those inside a piece (claims 12 and 13 in
kernels/README.md).

They only part a text into segments for encoding it; a session's chunks are cut at synchronizing pairs, which depend on
less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .automaton import DEAD, MATCH, START, STATE, Automaton
from .pipeline import Behavior
from .synchronizing import Pairs, entered_by, stage_pairs

#: bool (classes, classes, classes)
Triples = npt.NDArray[np.bool_]

#: Rectangles that a relation is covered by: one bit each of a byte (kernels/native/cut_masks.hpp).
RECTANGLES = 8


class Contexts(NamedTuple):
    """looking_on[a, b, c]: a cut between a and b where c follows. looking_back[z, a, b]: the same, where z precedes."""

    looking_on: Triples
    looking_back: Triples


def context_cuts(
    stages: Sequence[Automaton],
    behaviors: Sequence[Behavior],
    forbidden: Iterable[tuple[int, int]],
    first: npt.NDArray[np.bool_],
    last: npt.NDArray[np.bool_],
) -> Contexts:
    """Return the triples at which every text may be cut.

    forbidden: pairs (a, b) that added tokens rule out as cuts; first, last: classes that a literal may begin or end
    with (bool, one a class): beside it a stretch ends or begins, so a stage does not see both characters.
    """
    classes = stages[0].classes
    on = np.zeros((classes,) * 3, dtype=bool)
    back = np.zeros_like(on)
    quiet_before = np.ones((classes, classes), dtype=bool)
    #: Classes that lie in gaps of every stage before, always: two of them side by side are never parted there.
    only_gaps = np.ones(classes, dtype=bool)
    for stage, behavior in zip(stages, behaviors, strict=True):
        if behavior != "Isolated":
            break
        stage_on, stage_back = _stage_contexts(stage)
        together = only_gaps[:, None] & only_gaps[None, :]
        on |= stage_on & quiet_before[:, :, None] & together[None, :, :]
        back |= stage_back & quiet_before[None, :, :] & together[:, :, None]
        quiet_before &= stage_pairs(stage, behavior)[0]
        only_gaps &= np.array([not states for states in entered_by(stage)])
    for a, b in forbidden:
        on[a, b] = back[:, a, b] = False
    on &= ~first[None, None, :]
    back &= ~last[:, None, None]
    return Contexts(on, back)


def seamless_pairs(
    stages: Sequence[Automaton], behaviors: Sequence[Behavior], forbidden: Iterable[tuple[int, int]]
) -> Pairs:
    """Return the pairs (a, b) at which parting a text does nothing to its pieces but part the one that lies across.

    So the text may be cut there where no merge crosses (claim 13 in kernels/README.md).
    """
    classes = stages[0].classes
    result = np.ones((classes, classes), dtype=bool)
    for stage, behavior in zip(stages, behaviors, strict=True):
        result &= stage_pairs(stage, behavior)[0] | _stage_seamless(stage)
        if behavior != "Isolated":
            result[:] = False
    for a, b in forbidden:
        result[a, b] = False
    return result


def _stage_seamless(stage: Automaton) -> Pairs:
    """An attempt that crosses from a to b goes on as one that begins at b does, and either surely matches."""
    table, end = stage.transitions, stage.classes
    match = (table & MATCH) != 0
    to = table & STATE
    sure = ~stage.can_fail()
    result = np.ones((end, end), dtype=bool)
    for entered, states in enumerate(entered_by(stage)):
        for state in states:
            following = to[state, :end]
            goes_on = bool(match[state, end]) & (following == to[START, :end]) & (following != DEAD) & sure
            another = ~match[state, end] & ~match[state, :end] & (following == DEAD)
            result[entered] &= goes_on | another
    return result & sure[:, None]


def _stage_contexts(stage: Automaton) -> tuple[Triples, Triples]:
    table, end = stage.transitions, stage.classes
    match = (table & MATCH) != 0
    to = table & STATE
    gap = stage.can_fail()
    on = np.ones((end,) * 3, dtype=bool)
    back = np.ones_like(on)
    for entered, states in enumerate(entered_by(stage)):
        for state in states:
            # The attempt decides about a match in front of b as in front of the end, and goes on over b, if at all,
            # only to die on c without another match.
            following = to[state, :end]
            neutral = match[state, :end] == match[state, end]
            dies = (following[:, None] == DEAD) | (~match[following, :end] & (to[following, :end] == DEAD))
            on[entered] &= neutral[:, None] & dies
            # The attempt that consumed z consumes a, and matches in front of b as in front of the end, and dies; or it
            # matches neither in front of a nor further on: then z is another attempt's.
            dead = to[following, :end] == DEAD
            matches = match[following, end][:, None] & match[following, :end] & dead & (following != DEAD)[:, None]
            never = (following == DEAD)[:, None] | (~match[following, end][:, None] & ~match[following, :end] & dead)
            back[entered] &= matches | (never & ~match[state, :end][:, None])
    on &= ~(gap[:, None] & gap[None, :])[:, :, None]
    back &= ~gap[:, None, None]
    return on, back


def rectangles(triples: Triples, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Cover a relation by at most RECTANGLES products of three sets, each inside it: bits by place and class.

    Where they do not cover all of it, what weighs most by `weights` of its classes is covered. Returns (3, classes).
    """
    classes = len(weights)
    bits = np.zeros((3, classes), dtype=np.uint8)
    found: dict[bytes, tuple[Pairs, Pairs, Pairs]] = {}
    for a, b in zip(*np.nonzero(triples.any(axis=2)), strict=True):
        third = triples[a, b]
        second = triples[a][:, third].all(axis=1)
        key = third.tobytes() + second.tobytes()
        if key not in found:
            first = np.asarray(triples[:, second][:, :, third].all(axis=(1, 2)), dtype=bool)
            found[key] = (first, second, third)
    left = triples * (weights[:, None, None] * weights[None, :, None] * weights[None, None, :])
    for bit in range(RECTANGLES):
        gains = {key: int(left[np.ix_(*sets)].sum()) for key, sets in found.items()}
        best = max(gains, key=lambda key: gains[key], default=None)
        if best is None or gains[best] == 0:
            break
        for place, members in enumerate(found[best]):
            bits[place, members] |= 1 << bit
        left[np.ix_(*found[best])] = 0
    return bits
