"""Trim white space off spans.

As the reference's ByteLevel post-processor does (processors: byte_level.rs, process_offsets).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .compile.class_probe import probe_split_spaces
from .compile.pipeline import Pipeline
from .facts import LONG, TrimTables
from .reference import Ids, Positions

#: The character that stands for a space in a byte-level vocabulary, and counts as white space in a token's own text.
_SPACE_SYMBOL = "\u0120"


def trim_tables(pipeline: Pipeline, native: dict[str, Any]) -> TrimTables | None:
    """Return what a Trimmer needs, or None where the post-processor trims nothing. native: the pipeline's tables."""
    if not pipeline.trim_offsets:
        return None
    ids = np.asarray(native["vocabulary_ids"], dtype=np.int64)
    counted = _runs(native["vocabulary_bytes"], np.asarray(native["vocabulary_ends"], dtype=np.int64))
    tokens = pipeline.added_tokens
    size = 1 + max([int(ids.max(initial=-1)), *(token.id for token in tokens)])
    spaces = np.zeros((2, size), dtype=np.int64)
    spaces[:, ids] = counted
    white = _SPACE_SYMBOL + "".join(chr(point) for point in np.flatnonzero(probe_split_spaces()))
    for token in tokens:
        spaces[:, token.id] = _around(token.content, white)
    long = np.flatnonzero((spaces >= LONG).any(axis=0))
    return TrimTables(
        pipeline.leave_first_space,
        white,
        [token.id for token in tokens if token.lstrip or token.rstrip],
        [[int(id_), *spaces[:, id_].tolist()] for id_ in long],
        np.minimum(spaces, LONG).astype(np.uint8),
    )


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
            leading[at], trailing[at] = _around(text[spans[at, 0] : spans[at, 1]], tables.white)
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


def _runs(joined: bytes, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Count the spaces that each entry begins and ends with: (2, entries).

    Of a byte-level vocabulary's characters only that one counts as white space.
    """
    if not len(ends):
        return np.zeros((2, 0), dtype=np.int64)
    begins = np.concatenate([[0], ends[:-1]])
    other = np.frombuffer(joined, dtype=np.uint8) != 0x20
    at = np.arange(len(other), dtype=np.int64)
    # For every byte: the first one at or behind it that is no space, and the last one at or before it.
    behind = np.minimum.accumulate(np.where(other, at, len(other))[::-1])[::-1]
    before = np.maximum.accumulate(np.where(other, at, -1))
    leading = np.minimum(behind[begins], ends) - begins
    trailing = ends - np.maximum(before[ends - 1] + 1, begins)
    return np.stack([leading, trailing])


def _around(text: str, white: str) -> tuple[int, int]:
    return len(text) - len(text.lstrip(white)), len(text) - len(text.rstrip(white))
