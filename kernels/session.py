"""Sessions: one text and its ids, kept natively or by the reference, behind one face.

What a template adds in front of and behind the text's own ids (add_special_tokens) is added here; the native store
knows only the text. No sockets, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, NoReturn, Protocol

import numpy as np

from . import _native
from .errors import BadEditError, BadSeedError
from .reference import Ids, Reference, Text, as_str, as_text, bad_text

PathTaken = Literal["append", "edit", "fresh", "reference"]


class Splice(NamedTuple):
    """A change of a session's ids: old[start:stop] became ids (uint32)."""

    start: int
    stop: int
    ids: Ids


#: The same with the ids as a list: start, stop, ids.
ListSplice = tuple[int, int, list[int]]
#: The same with the ids as little-endian uint32 bytes, and the work that it was: start, stop, ids, path, code points.
PackedSplice = tuple[int, int, bytes, PathTaken, int]


class Work(NamedTuple):
    """How the last call was answered, and how many code points went through an encoder."""

    path: PathTaken
    chars_encoded: int


class Marked(NamedTuple):
    """A text encoded for a session elsewhere: its ids, and where they may be parted.

    Each of `cuts` (bytes, ascending) is a synchronizing position that a session of the text keeps; `marks` tell how
    many of the text's own ids stand before each. Both uint32.
    """

    #: All ids, what a template adds included.
    ids: Ids
    cuts: Ids
    marks: Ids


class Session(Protocol):
    """One text and its ids. Positions are code points; texts are str or UTF-8 bytes. One thread at a time.

    Every method that changes the text either succeeds, or raises and leaves the session as it was.
    """

    @property
    def chars(self) -> int:
        """Code points of the text."""

    @property
    def spells(self) -> bool:
        """Whether some of the text is spelled from ids when it is looked at: shared_ends() then takes longer."""

    @property
    def token_count(self) -> int:
        """How many ids there are, a template's included."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of text, ids and what holds them; what forks share counts for each of them."""

    @property
    def unshared_bytes(self) -> int:
        """The part of memory_bytes that no fork shares: what dropping this session would give back."""

    @property
    def work(self) -> Work:
        """How the last change was answered."""

    def reset(self, text: Text) -> Splice:
        """Replace the whole text and encode it in full. Raises BadTextError."""

    def append(self, delta: Text) -> Splice:
        """Put `delta` behind the text. Raises BadTextError."""

    def edit(self, start: int, stop: int, replacement: Text) -> Splice:
        """Replace the code points [start, stop). Raises BadEditError, BadTextError."""

    def append_packed(self, delta: bytes) -> PackedSplice:
        """As append, from UTF-8 to bytes of ids: what a message holds and what its reply does."""

    def edit_packed(self, start: int, stop: int, replacement: bytes) -> PackedSplice:
        """As edit, from UTF-8 to bytes of ids."""

    def append_list(self, delta: str) -> ListSplice:
        """As append, or as reset where there is no text yet, with the ids as a list."""

    def replace_list(self, start: int, stop: int, replacement: str) -> ListSplice:
        """As reset, append or edit, whichever the range asks for, with the ids as a list."""

    def shared_ends(self, text: str) -> tuple[int, int]:
        """Return how many code points the text and another share at the start and, beyond those, at the end."""

    def fork(self) -> Session:
        """Return a second session with the same text, which shares what is equal."""

    def text(self) -> str:
        """Return the whole text."""

    def ids(self) -> Ids:
        """Return all ids, as an array that the caller owns."""

    def ids_list(self) -> list[int]:
        """Return all ids, as a new list."""


class ReferenceSession:
    """A session that encodes its whole text by the reference at every step."""

    def __init__(self, reference: Reference, add_special_tokens: bool, split_special_tokens: bool) -> None:
        self._reference = reference
        self._flags = (add_special_tokens, split_special_tokens)
        #: The text and the reference's ids of it under _flags: replaced together, at one stroke.
        self._held: tuple[str, Ids] = ("", reference.encode("", *self._flags))
        self._work = Work("reference", 0)

    @property
    def chars(self) -> int:
        return len(self._held[0])

    @property
    def spells(self) -> bool:
        return False

    @property
    def token_count(self) -> int:
        return len(self._held[1])

    @property
    def memory_bytes(self) -> int:
        text, ids = self._held
        return len(text.encode()) + ids.nbytes

    @property
    def unshared_bytes(self) -> int:
        return self.memory_bytes

    @property
    def work(self) -> Work:
        return self._work

    def reset(self, text: Text) -> Splice:
        return self._become(as_text(text))

    def append(self, delta: Text) -> Splice:
        return self._become(self._held[0] + as_text(delta))

    def edit(self, start: int, stop: int, replacement: Text) -> Splice:
        text = self._held[0]
        check_range(start, stop, len(text))
        return self._become(text[:start] + as_text(replacement) + text[stop:])

    def append_packed(self, delta: bytes) -> PackedSplice:
        return _as_packed(self.append(delta), self._work)

    def edit_packed(self, start: int, stop: int, replacement: bytes) -> PackedSplice:
        return _as_packed(self.edit(start, stop, replacement), self._work)

    def append_list(self, delta: str) -> ListSplice:
        return _as_list(self.append(delta))

    def replace_list(self, start: int, stop: int, replacement: str) -> ListSplice:
        return _as_list(self.edit(start, stop, replacement))

    def shared_ends(self, text: str) -> tuple[int, int]:
        return _native.shared_ends(self._held[0], text)

    def fork(self) -> ReferenceSession:
        twin = ReferenceSession.__new__(ReferenceSession)
        twin.__dict__.update(self.__dict__)
        return twin

    def text(self) -> str:
        return self._held[0]

    def ids(self) -> Ids:
        copy: Ids = self._held[1].copy()
        return copy

    def ids_list(self) -> list[int]:
        return _native.list_of(self._held[1])

    def _become(self, text: str) -> Splice:
        old, new = self._held[1], self._reference.encode(text, *self._flags)
        self._held = (text, new)
        self._work = Work("reference", len(text))
        return splice_between(old, new)


class NativeSession:
    """A session in the native store. When a proof does not hold there, it goes on by the reference, for good.

    `on_mismatch(error, text)` is told about that, once.
    """

    def __init__(
        self,
        store: _native.Session,
        around: tuple[Ids, Ids],
        by_reference: Callable[[], ReferenceSession],
        on_mismatch: Callable[[_native.OverlapMismatch, str], None],
    ) -> None:
        self._store = store
        #: The ids that a template puts before and behind the text's.
        self._before, self._behind = around
        self._shift = len(self._before)
        self._by_reference = by_reference
        self._on_mismatch = on_mismatch
        #: Set once the native store has been caught: from then on it holds the session, and _store is stale.
        self._fallen_back: ReferenceSession | None = None
        self._work: tuple[PathTaken, int] = ("fresh", 0)

    @property
    def chars(self) -> int:
        return self._fallen_back.chars if self._fallen_back else self._store.chars

    @property
    def spells(self) -> bool:
        return not self._fallen_back and self._store.spells

    @property
    def token_count(self) -> int:
        if self._fallen_back:
            return self._fallen_back.token_count
        return len(self._before) + self._store.token_count + len(self._behind)

    @property
    def memory_bytes(self) -> int:
        return self._fallen_back.memory_bytes if self._fallen_back else self._store.memory_bytes

    @property
    def unshared_bytes(self) -> int:
        return self._fallen_back.unshared_bytes if self._fallen_back else self._store.unshared_bytes

    @property
    def work(self) -> Work:
        return self._fallen_back.work if self._fallen_back else Work(*self._work)

    def reset(self, text: Text) -> Splice:
        text = as_str(text)
        if self._fallen_back:
            return self._fallen_back.reset(text)
        try:
            return self._done("fresh", self._store.reset(text))
        except _native.OverlapMismatch as error:
            return self._fall_back(error, text)
        except UnicodeEncodeError as error:
            raise bad_text(text, error) from None

    def seed(self, text: Text, marked: Marked) -> None:
        """Become a session of `text`, with what `Tokenizer.encode_marked` made of it; nothing is encoded.

        The ids are trusted. Raises BadTextError, and BadSeedError where cuts and marks can't be the text's.
        """
        text = as_str(text)
        behind = len(marked.ids) - len(self._behind)
        if behind < self._shift:
            raise BadSeedError("a session can't be seeded: the template's ids are missing")
        try:
            self._store.seed(text, marked.ids[self._shift : behind], marked.cuts, marked.marks)
        except UnicodeEncodeError as error:
            raise bad_text(text, error) from None
        except (_native.OverlapMismatch, ValueError, RuntimeError) as error:
            raise BadSeedError(f"a session can't be seeded: {error}") from None
        self._work = ("fresh", 0)

    def append(self, delta: Text) -> Splice:
        delta = as_str(delta)
        if self._fallen_back:
            return self._fallen_back.append(delta)
        try:
            return self._done("append", self._store.append(delta))
        except _native.OverlapMismatch as error:
            return self._fall_back(error, self._store.text() + delta)
        except UnicodeEncodeError as error:
            raise bad_text(delta, error) from None

    def edit(self, start: int, stop: int, replacement: Text) -> Splice:
        replacement = as_str(replacement)
        if self._fallen_back:
            return self._fallen_back.edit(start, stop, replacement)
        check_range(start, stop, self._store.chars)
        try:
            return self._done("edit", self._store.edit(start, stop, replacement))
        except _native.OverlapMismatch as error:
            return self._fall_back(error, self._changed(start, stop, replacement))
        except UnicodeEncodeError as error:
            raise bad_text(replacement, error) from None

    def append_packed(self, delta: bytes) -> PackedSplice:
        if self._fallen_back:
            return self._fallen_back.append_packed(delta)
        store = self._store
        try:
            made = store.append_packed(delta)
        except _native.OverlapMismatch as error:
            return _as_packed(self._fall_back(error, store.text() + as_text(delta)), self.work)
        return self._packed("append", made or _not_utf8(delta))

    def edit_packed(self, start: int, stop: int, replacement: bytes) -> PackedSplice:
        if self._fallen_back:
            return self._fallen_back.edit_packed(start, stop, replacement)
        check_range(start, stop, self._store.chars)
        try:
            made = self._store.edit_packed(start, stop, replacement)
        except _native.OverlapMismatch as error:
            return _as_packed(self._fall_back(error, self._changed(start, stop, as_text(replacement))), self.work)
        return self._packed("edit", made or _not_utf8(replacement))

    def append_list(self, delta: str) -> ListSplice:
        if self._fallen_back:
            return self._fallen_back.append_list(delta)
        store = self._store
        path: PathTaken = "append" if store.chars else "fresh"
        try:
            start, stop, ids, chars = store.append_list(delta)
        except _native.OverlapMismatch as error:
            return _as_list(self._fall_back(error, store.text() + delta))
        except UnicodeEncodeError as error:
            raise bad_text(delta, error) from None
        self._work = (path, chars)
        return start + self._shift, stop + self._shift, ids

    def replace_list(self, start: int, stop: int, replacement: str) -> ListSplice:
        if self._fallen_back:
            return self._fallen_back.replace_list(start, stop, replacement)
        store, length = self._store, self._store.chars
        check_range(start, stop, length)
        path: PathTaken
        try:
            if stop - start == length:
                path = "fresh"
                start, stop, ids, chars = store.reset_list(replacement)
            elif start == length:
                path = "append"
                start, stop, ids, chars = store.append_list(replacement)
            else:
                path = "edit"
                start, stop, ids, chars = store.edit_list(start, stop, replacement)
        except _native.OverlapMismatch as error:
            return _as_list(self._fall_back(error, self._changed(start, stop, replacement)))
        except UnicodeEncodeError as error:
            raise bad_text(replacement, error) from None
        self._work = (path, chars)
        return start + self._shift, stop + self._shift, ids

    def shared_ends(self, text: str) -> tuple[int, int]:
        return self._fallen_back.shared_ends(text) if self._fallen_back else self._store.shared_ends(text)

    def fork(self) -> Session:
        if self._fallen_back:
            return self._fallen_back.fork()
        twin = NativeSession(self._store.fork(), (self._before, self._behind), self._by_reference, self._on_mismatch)
        return twin

    def text(self) -> str:
        return self._fallen_back.text() if self._fallen_back else self._store.text()

    def ids(self) -> Ids:
        if self._fallen_back:
            return self._fallen_back.ids()
        ids = self._store.ids()
        return np.concatenate([self._before, ids, self._behind]) if len(self._before) + len(self._behind) else ids

    def ids_list(self) -> list[int]:
        if self._fallen_back:
            return self._fallen_back.ids_list()
        ids = self._store.ids_list()
        if len(self._before) + len(self._behind):
            ids[:0] = self._before.tolist()
            ids += self._behind.tolist()
        return ids

    def validate(self) -> None:
        """Check every invariant of the native store; slow, for tests. Raises RuntimeError at the first broken one."""
        if not self._fallen_back:
            self._store.validate()

    def _done(self, path: PathTaken, splice: tuple[int, int, Ids]) -> Splice:
        self._work = (path, self._store.chars_encoded)
        return Splice(splice[0] + self._shift, splice[1] + self._shift, splice[2])

    def _packed(self, path: PathTaken, made: tuple[int, int, bytes, int]) -> PackedSplice:
        start, stop, ids, chars = made
        self._work = (path, chars)
        return start + self._shift, stop + self._shift, ids, path, chars

    def _changed(self, start: int, stop: int, replacement: str) -> str:
        text = self._store.text()
        return text[:start] + replacement + text[stop:]

    def _fall_back(self, error: _native.OverlapMismatch, text: str) -> Splice:
        reference = self._by_reference()
        old = self.ids()
        reference.reset(text)
        self._fallen_back = reference
        self._on_mismatch(error, text)
        return splice_between(old, reference.ids())


def check_range(start: int, stop: int, length: int) -> None:
    """Raise BadEditError unless 0 <= start <= stop <= length (code points)."""
    if not 0 <= start <= stop <= length:
        raise BadEditError(f"the edit's range {start}:{stop} does not lie in the session's text of {length} characters")


def _as_list(splice: Splice) -> ListSplice:
    return splice.start, splice.stop, _native.list_of(splice.ids)


def _as_packed(splice: Splice, work: Work) -> PackedSplice:
    return splice.start, splice.stop, splice.ids.astype("<u4", copy=False).tobytes(), *work


def _not_utf8(text: bytes) -> NoReturn:
    """Raise what is wrong with a text that the native store refused."""
    as_text(text)
    raise AssertionError("the native store refused UTF-8")


def splice_between(old: Ids, new: Ids) -> Splice:
    """Return the smallest single splice that turns `old` into `new`.

    >>> splice_between(np.array([1, 2, 3], np.uint32), np.array([1, 9, 3], np.uint32))
    Splice(start=1, stop=2, ids=array([9], dtype=uint32))
    """
    shared = min(len(old), len(new))
    unequal = np.flatnonzero(old[:shared] != new[:shared])
    start = int(unequal[0]) if len(unequal) else shared
    rest = shared - start
    tail_unequal = np.flatnonzero(old[len(old) - rest :][::-1] != new[len(new) - rest :][::-1])
    suffix = int(tail_unequal[0]) if len(tail_unequal) else rest
    return Splice(start, len(old) - suffix, new[start : len(new) - suffix].copy())
