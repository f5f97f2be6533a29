"""The engine: what client, workers and benches import of this package.

`load` turns a tokenizer into a `Tokenizer`: compiled to native tables where every condition of exactness holds,
or answered by the reference, with the reason in words. Both have the same face. A `Session` keeps one text and its
ids, and re-encodes what a change can touch.

No sockets, no processes, no clock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from tokenizers import Tokenizer as HfTokenizer

from .errors import BadEditError, BadTokenizerError
from .reference import HuggingFaceReference, Ids, Positions, Reference, TiktokenReference, as_text

Text = str | bytes | bytearray | memoryview  # a str, or UTF-8 bytes

Path_ = Literal["append", "edit", "fresh", "reference"]


class Splice(NamedTuple):
    """A change of a session's ids: old[start:stop] became ids (uint32)."""

    start: int
    stop: int
    ids: Ids


class Work(NamedTuple):
    """How the last call was answered, and how many code points went through an encoder."""

    path: Path_
    chars_encoded: int


class Session(Protocol):
    """One text and its ids. Positions are code points; texts are str or UTF-8 bytes.

    Every method that changes the text either succeeds, or raises and leaves the session as it was.
    """

    @property
    def chars(self) -> int: ...
    @property
    def token_count(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def work(self) -> Work: ...
    def reset(self, text: Text) -> Splice: ...
    def append(self, delta: Text) -> Splice: ...
    def edit(self, start: int, stop: int, replacement: Text) -> Splice: ...
    def fork(self) -> Session: ...
    def text(self) -> str: ...
    def ids(self) -> Ids: ...


class Tokenizer:
    """A frozen tokenizer, native or by the reference."""

    def __init__(self, reference: Reference, reason: str) -> None:
        self.sha256 = reference.sha256
        self.status: Literal["native", "reference"] = "reference"
        self.reason = reason
        self._reference = reference

    def encode(self, text: Text, *, add_special_tokens: bool = False, split_special_tokens: bool = False) -> Ids:
        """Encode `text` in full: uint32 ids, equal to the reference's. Raises BadTextError."""
        return self._reference.encode(as_text(text), add_special_tokens, split_special_tokens)

    def offsets(self, text: Text) -> Positions:
        """Return the (n, 2) int64 spans of the ids, in code points, as the reference reports them."""
        return self._reference.offsets(as_text(text))

    def pieces(self, text: Text) -> Positions:
        """Return where the pieces that hold at least one id start: int64, code points."""
        return self._reference.pieces(as_text(text))

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`, as the reference decodes them. Raises BadIdError."""
        return self._reference.decode(ids, skip_special_tokens)

    def session(self, *, add_special_tokens: bool = False, split_special_tokens: bool = False) -> Session:
        """Start an empty session."""
        return ReferenceSession(self._reference, add_special_tokens, split_special_tokens)


class ReferenceSession:
    """A session that encodes its whole text by the reference at every step."""

    def __init__(self, reference: Reference, add_special_tokens: bool, split_special_tokens: bool) -> None:
        self._reference = reference
        self._flags = (add_special_tokens, split_special_tokens)
        self._text = ""
        self._ids = reference.encode("", *self._flags)
        self.work = Work("reference", 0)

    @property
    def chars(self) -> int:
        return len(self._text)

    @property
    def token_count(self) -> int:
        return len(self._ids)

    @property
    def memory_bytes(self) -> int:
        return len(self._text.encode()) + self._ids.nbytes

    def reset(self, text: Text) -> Splice:
        return self._become(as_text(text))

    def append(self, delta: Text) -> Splice:
        return self._become(self._text + as_text(delta))

    def edit(self, start: int, stop: int, replacement: Text) -> Splice:
        check_range(start, stop, len(self._text))
        return self._become(self._text[:start] + as_text(replacement) + self._text[stop:])

    def fork(self) -> ReferenceSession:
        twin = ReferenceSession.__new__(ReferenceSession)
        twin.__dict__.update(self.__dict__)
        return twin

    def text(self) -> str:
        return self._text

    def ids(self) -> Ids:
        return self._ids.copy()

    def _become(self, text: str) -> Splice:
        old, new = self._ids, self._reference.encode(text, *self._flags)
        self._text, self._ids = text, new
        self.work = Work("reference", len(text))
        return splice_between(old, new)


def check_range(start: int, stop: int, length: int) -> None:
    """Raise BadEditError unless 0 <= start <= stop <= length (code points)."""
    if not 0 <= start <= stop <= length:
        raise BadEditError(f"the edit's range {start}:{stop} does not lie in the session's text of {length} characters")


def splice_between(old: Ids, new: Ids) -> Splice:
    """Return the smallest single splice that turns `old` into `new`."""
    shared = min(len(old), len(new))
    unequal = np.flatnonzero(old[:shared] != new[:shared])
    start = int(unequal[0]) if len(unequal) else shared
    rest = shared - start
    tail_unequal = np.flatnonzero(old[len(old) - rest :][::-1] != new[len(new) - rest :][::-1])
    suffix = int(tail_unequal[0]) if len(tail_unequal) else rest
    return Splice(start, len(old) - suffix, new[start : len(new) - suffix].copy())


def load(source: str | os.PathLike[str] | HfTokenizer | Any) -> Tokenizer:
    """Load a tokenizer: a path to a tokenizer.json, a `tokenizers.Tokenizer`, or a `tiktoken.Encoding`.

    Raises BadTokenizerError when the source can't be read as a tokenizer.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadTokenizerError(f"{path}: {error.strerror}") from None
        return Tokenizer(HuggingFaceReference.from_json(content), "not compiled yet")
    if isinstance(source, HfTokenizer):
        return Tokenizer(HuggingFaceReference.from_json(source.to_str().encode()), "not compiled yet")
    if type(source).__module__.split(".")[0] == "tiktoken":
        return Tokenizer(TiktokenReference(source), "not compiled yet")
    raise BadTokenizerError(
        f"a tokenizer is a path to a tokenizer.json, a tokenizers.Tokenizer or a tiktoken.Encoding, not {type(source).__name__}"
    )


__all__ = ["Ids", "Positions", "Session", "Splice", "Text", "Tokenizer", "Work", "check_range", "load"]
