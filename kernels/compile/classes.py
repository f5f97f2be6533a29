"""Partition the code points into classes: two are in one class when no atom of any stage tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .class_probe import CODE_POINTS, Members
from .refusal import Refusal

#: A class is stored in one byte.
MAX_CLASSES = 255

_SURROGATES = slice(0xD800, 0xE000)


@dataclass(frozen=True)
class Classes:
    """class_of: uint8 (0x110000,), the class of every code point.

    membership: atom -> bool (count,), the classes it holds.
    """

    count: int
    class_of: npt.NDArray[np.uint8]
    membership: dict[str, npt.NDArray[np.bool_]]

    def of(self, char: str) -> int:
        """Return the class of a character."""
        return int(self.class_of[ord(char)])

    def representative(self, number: int) -> str:
        """Return the first character of a class."""
        return chr(int(np.argmax(self.class_of == number)))


def partition(atoms: Mapping[str, Members]) -> Classes:
    """Build the coarsest partition that every atom is a union of. Raises Refusal beyond MAX_CLASSES."""
    # PERF: neighbours mostly agree, so what is numbered is the few thousand runs and not a million code points.
    starts = _runs(atoms)
    # Surrogates, which no text holds, follow their neighbour, so that they are no class of their own.
    examples = np.where(starts == _SURROGATES.start, _SURROGATES.stop, starts)
    group = np.zeros(len(starts), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    names = list(atoms)
    for start in range(0, len(names), 32):
        signature = group.astype(np.uint64)
        for name in names[start : start + 32]:
            signature = signature * np.uint64(2) + atoms[name][examples]
        _, first, numbers = np.unique(signature, return_index=True, return_inverse=True)
        group = numbers.reshape(-1)
        if len(first) > MAX_CLASSES:
            raise Refusal(f"its regexes tell more than {MAX_CLASSES} classes of characters apart")
    class_of = np.repeat(group.astype(np.uint8), np.diff(np.append(starts, CODE_POINTS)))
    return Classes(len(first), class_of, {atom: members[examples[first]] for atom, members in atoms.items()})


def _runs(atoms: Mapping[str, Members]) -> npt.NDArray[np.int64]:
    """Return where runs of code points begin that no atom tells apart."""
    begins = np.zeros(CODE_POINTS, dtype=bool)
    begins[0] = True
    before, behind = _SURROGATES.start - 1, _SURROGATES.stop
    parted = False
    for members in atoms.values():
        begins[1:] |= members[1:] != members[:-1]
        parted = parted or members[before] != members[behind]
    begins[_SURROGATES] = begins[behind] = False
    begins[_SURROGATES.start] = parted
    return np.flatnonzero(begins)
