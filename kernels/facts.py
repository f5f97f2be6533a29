"""What a native tokenizer needs in Python beside its encoder: small facts, and the white space of its ids.

Packed, they travel in the compiled file; the table of white space is looked at where it lies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: From here on, a run of white space stands in `TrimTables.long`.
LONG = 255


@dataclass(frozen=True)
class TrimTables:
    """The white space that the reference's ByteLevel post-processor trims off spans.

    spaces: uint8 (2, max id + 1), leading and trailing white space of every id's own text. long: (id, leading,
    trailing) where either is LONG or more. as_matched: ids whose text is what was matched, white space that they took
    along included. white: what counts as white space in those.
    """

    leave_first_space: bool
    white: str
    as_matched: list[int]
    long: list[list[int]]
    spaces: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Facts:
    """prefix, suffix: the ids that the template puts around a text's. space_in_front: see pipeline.py."""

    prefix: list[int]
    suffix: list[int]
    space_in_front: bool
    trim: TrimTables | None

    def pack(self) -> tuple[dict[str, Any], bytes]:
        """Return the small facts, as JSON can hold them, and the table."""
        trim = self.trim
        small: dict[str, Any] = {
            "prefix": self.prefix,
            "suffix": self.suffix,
            "space_in_front": self.space_in_front,
            "trim": trim
            and {
                "leave_first_space": trim.leave_first_space,
                "white": trim.white,
                "as_matched": trim.as_matched,
                "long": trim.long,
            },
        }
        return small, trim.spaces.tobytes() if trim else b""

    @staticmethod
    def unpack(small: dict[str, Any], table: npt.NDArray[np.uint8]) -> Facts:
        """Raises KeyError, TypeError or ValueError for what `pack` never made."""
        trim = small["trim"]
        return Facts(
            small["prefix"],
            small["suffix"],
            small["space_in_front"],
            trim
            and TrimTables(
                trim["leave_first_space"], trim["white"], trim["as_matched"], trim["long"], table.reshape(2, -1)
            ),
        )


def join(small: dict[str, Any], table: bytes) -> bytes:
    """Return one block of bytes of both."""
    head = json.dumps(small).encode()
    return len(head).to_bytes(8, "little") + head + table


def part(block: npt.NDArray[np.uint8]) -> tuple[dict[str, Any], npt.NDArray[np.uint8]]:
    """Undo `join`, without a copy of the table. Raises ValueError for what `join` never made."""
    size = int.from_bytes(block[:8].tobytes(), "little")
    small = json.loads(block[8 : 8 + size].tobytes())
    if not isinstance(small, dict):
        raise ValueError("no facts")
    return small, block[8 + size :]
