"""The white space of every id's own text, counted when a tokenizer is compiled: what offsets.py trims spans by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..facts import LONG, TrimTables
from ..offsets import around
from .class_probe import probe_split_spaces
from .pipeline import Pipeline

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
        spaces[:, token.id] = around(token.content, white)
    long = np.flatnonzero((spaces >= LONG).any(axis=0))
    return TrimTables(
        pipeline.leave_first_space,
        white,
        [token.id for token in tokens if token.lstrip or token.rstrip],
        [[int(id_), *spaces[:, id_].tolist()] for id_ in long],
        np.minimum(spaces, LONG).astype(np.uint8),
    )


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
