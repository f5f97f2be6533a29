"""Trim white space off spans, as the reference's ByteLevel post-processor does (processors.

Byte_level.rs, process_offsets).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .compile.pipeline import Pipeline
from .reference import Ids, Positions

#: (leading, trailing) spaces of every id: int64 (2, max id + 1).
Spaces = npt.NDArray[np.int64]


def spans_of_spaces(pipeline: Pipeline) -> Spaces:
    """Count the white space at either end of every id's text."""
    size = 1 + max([id_ for _, id_ in pipeline.vocabulary] + [token.id for token in pipeline.added_tokens], default=-1)
    spaces = np.zeros((2, size), dtype=np.int64)
    if not pipeline.trim_offsets:
        return spaces
    for entry, id_ in pipeline.vocabulary:  # in a byte-level vocabulary only the space counts
        spaces[:, id_] = len(entry) - len(entry.lstrip(b" ")), len(entry) - len(entry.rstrip(b" "))
    for token in pipeline.added_tokens:
        text = token.content.replace("\u0120", " ")
        spaces[:, token.id] = len(text) - len(text.lstrip()), len(text) - len(text.rstrip())
    return spaces


def trimmed(ids: Ids, spans: Positions, spaces: Spaces, pipeline: Pipeline) -> Positions:
    """Return (n, 2) spans without the white space at either end of each id."""
    leading, trailing = spaces[0][ids], spaces[1][ids]
    start, stop = spans[:, 0].copy(), spans[:, 1].copy()
    if pipeline.leave_first_space:
        first = start == 0
        first[:1] = True
        leading = np.where(first & (leading == 1), 0, leading)
    start = np.minimum(start + leading, stop)
    trim = (trailing > 0) & (stop >= trailing)
    stop = np.where(trim, np.maximum(stop - trailing, start), stop)
    return np.stack([start, stop], axis=1)
