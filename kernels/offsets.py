"""Trim white space off spans.

As the reference's ByteLevel post-processor does (processors: byte_level.rs, process_offsets).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .compile.class_probe import probe_split_spaces
from .compile.pipeline import Pipeline
from .reference import Ids, Positions


class Trimmer:
    """Trims the spans of one tokenizer's ids; does nothing where its post-processor doesn't."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._on = pipeline.trim_offsets
        self._leave_first_space = pipeline.leave_first_space
        size = 1 + max(
            [id_ for _, id_ in pipeline.vocabulary] + [token.id for token in pipeline.added_tokens], default=-1
        )
        #: (leading, trailing) white space of every id's own text: int64 (2, max id + 1).
        self._spaces = np.zeros((2, size if self._on else 0), dtype=np.int64)
        if not self._on:
            return
        #: What counts as white space, and the character that stands for a space in a byte-level vocabulary.
        self._white = "\u0120" + "".join(chr(point) for point in np.flatnonzero(probe_split_spaces()))
        for entry, id_ in pipeline.vocabulary:  # of a byte-level vocabulary's characters only that one counts
            self._spaces[:, id_] = len(entry) - len(entry.lstrip(b" ")), len(entry) - len(entry.rstrip(b" "))
        for token in pipeline.added_tokens:
            self._spaces[:, token.id] = self._around(token.content)
        #: Ids whose text is what was matched, white space that they took along included.
        self._as_matched = np.array([t.id for t in pipeline.added_tokens if t.lstrip or t.rstrip], dtype=np.uint32)

    def __call__(self, text: str, ids: Ids, spans: Positions) -> Positions:
        """Return (n, 2) spans without the white space at either end of each id."""
        if not self._on:
            return spans
        leading, trailing = self._spaces[0][ids], self._spaces[1][ids]
        for at in np.flatnonzero(np.isin(ids, self._as_matched)):
            leading[at], trailing[at] = self._around(text[spans[at, 0] : spans[at, 1]])
        start, stop = spans[:, 0].copy(), spans[:, 1].copy()
        if self._leave_first_space:
            first = start == 0
            first[:1] = True
            leading = np.where(first & (leading == 1), 0, leading)
        start = np.minimum(start + leading, stop)
        trim = (trailing > 0) & (stop >= trailing)
        stop = np.where(trim, np.maximum(stop - trailing, start), stop)
        trimmed: npt.NDArray[np.int64] = np.stack([start, stop], axis=1)
        return trimmed

    def _around(self, text: str) -> tuple[int, int]:
        return len(text) - len(text.lstrip(self._white)), len(text) - len(text.rstrip(self._white))
