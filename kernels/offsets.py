"""Trim white space off spans.

As the reference's ByteLevel post-processor does (processors: byte_level.rs, process_offsets).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .facts import TrimTables
from .reference import Ids, Positions


class Trimmer:
    """Trims the spans of one tokenizer's ids; does nothing where its post-processor doesn't."""

    def __init__(self, tables: TrimTables | None) -> None:
        self._tables = tables

    def __call__(self, text: str, ids: Ids, spans: Positions) -> Positions:
        """Return (n, 2) spans without the white space at either end of each id."""
        tables = self._tables
        if tables is None:
            return spans
        leading, trailing = tables.spaces[:, ids].astype(np.int64)
        for id_, before, behind in tables.long:
            leading[ids == id_], trailing[ids == id_] = before, behind
        for at in np.flatnonzero(np.isin(ids, np.array(tables.as_matched, dtype=np.uint32))):
            leading[at], trailing[at] = around(text[spans[at, 0] : spans[at, 1]], tables.white)
        start, stop = spans[:, 0].copy(), spans[:, 1].copy()
        if tables.leave_first_space:
            first = start == 0
            first[:1] = True
            leading = np.where(first & (leading == 1), 0, leading)
        start = np.minimum(start + leading, stop)
        trim = (trailing > 0) & (stop >= trailing)
        stop = np.where(trim, np.maximum(stop - trailing, start), stop)
        trimmed: npt.NDArray[np.int64] = np.stack([start, stop], axis=1)
        return trimmed


def around(text: str, white: str) -> tuple[int, int]:
    """Return how many characters of `white` a text begins and ends with."""
    return len(text) - len(text.lstrip(white)), len(text) - len(text.rstrip(white))
