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
    group = np.zeros(CODE_POINTS, dtype=np.int64)
    count = 1
    names = list(atoms)
    for start in range(0, len(names), 32):
        signature = group.astype(np.uint64)
        for name in names[start : start + 32]:
            signature = signature * np.uint64(2) + atoms[name]
        # Surrogates, which no text holds, follow their neighbour, so that they are no class of their own.
        signature[0xD800:0xE000] = signature[0xE000]
        # PERF: neighbours mostly agree, so number the few thousand runs instead of a million code points.
        starts = np.flatnonzero(np.concatenate([[True], signature[1:] != signature[:-1]]))
        values, numbers = np.unique(signature[starts], return_inverse=True)
        group = np.repeat(numbers.reshape(-1), np.diff(np.append(starts, CODE_POINTS)))
        count = len(values)
        if count > MAX_CLASSES:
            raise Refusal(f"its regexes tell more than {MAX_CLASSES} classes of characters apart")
    class_of = group.astype(np.uint8)
    first = np.array([int(np.argmax(class_of == number)) for number in range(count)])
    return Classes(count, class_of, {atom: members[first] for atom, members in atoms.items()})
