"""The engine in this process, with the surface of a tier: for tools, tests, and front ends that want no second process.

What a session does between turns and ids is the engine's matter; here its splices become patches and its errors the
client's. The engine keeps the text and the ids; a Python list of them is made when somebody first asks for it. Limits:
one process, its memory and its cores; sessions are not bounded.

Who guards what: an Embedded may be used by many threads; a session has a lock, so its calls come one after another.
A process that forks leaves its child all of it, but for sessions that another thread's call was changing: there those
are closed.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from tokseam.kernels import engine, forks
from tokseam.kernels._native import list_of
from tokseam.kernels.errors import BadTextError, BadTokenizerError, EngineError

from . import errors
from .errors import BadRequestError, ClosedError, UnknownTokenizerError
from .ids import packed_ids
from .surface import Outcome, Patch, check_range, check_session_id, shared_ends, utf8

#: By the path that answered.
_PATH_COUNTERS = {path: f"path_{path}" for path in ("append", "edit", "fresh", "reference")}
_COUNTERS = ("encodes", *_PATH_COUNTERS.values(), "chars_encoded", "forks")


class Embedded:
    """Tokenizers by name, encoded with in this process.

    >>> engine = Embedded({"ds": "path/to/tokenizer.json"})  # doctest: +SKIP
    >>> engine.encode("Hello")                               # doctest: +SKIP
    """

    def __init__(self, tokenizers: Mapping[str, Any], *, chunk_cache_bytes: int = engine.CHUNK_CACHE_BYTES) -> None:
        """Load each: a path to a tokenizer.json, a tokenizers.Tokenizer or a tiktoken.Encoding.

        chunk_cache_bytes: bytes of large chunks (4 KB and more) that each tokenizer keeps to recognise in later texts;
        0 recognises none. Raises BadTokenizerError naming the one that can't be read, BadRequestError.
        """
        if type(chunk_cache_bytes) is not int or chunk_cache_bytes < 0:
            raise BadRequestError(f"chunk_cache_bytes: must be an int of at least 0, not {chunk_cache_bytes!r:.40}")
        self._tokenizers: dict[str, engine.Tokenizer] = {}
        for name, source in tokenizers.items():
            try:
                self._tokenizers[name] = source if isinstance(source, engine.Tokenizer) else engine.load(source)
            except BadTokenizerError as error:
                raise errors.BadTokenizerError(f"tokenizer {name}: {error}") from None
            self._tokenizers[name].bound_chunk_cache(chunk_cache_bytes)
        #: Guards the counters.
        self._lock = threading.Lock()
        self._counters: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
        #: Open sessions that somebody still holds.
        self._sessions: weakref.WeakSet[EmbeddedSession] = weakref.WeakSet()
        forks.watch(self)

    # -- texts and ids ----------------------------------------------------------------------------------------

    def encode(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
        threads: int = 1,
    ) -> list[int]:
        """Encode one text in full. `tokenizer` may be left out when there is one only.

        threads: the most that it may work on at the same time.
        """
        return list_of(self.encode_array(text, tokenizer, add_special_tokens, split_special_tokens, threads))

    def encode_array(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
        threads: int = 1,
    ) -> npt.NDArray[np.uint32]:
        """Encode one text in full, as an array: no Python number is made.

        threads: the most that it may work on at the same time.
        """
        if type(threads) is not int or threads < 1:
            raise BadRequestError(f"threads: must be a positive int, not {threads!r:.40}")
        return self._encode(self._resolve(tokenizer), text, "text", add_special_tokens, split_special_tokens, threads)

    def encode_batch(
        self,
        texts: Sequence[str],
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> list[list[int]]:
        """Encode many texts."""
        found = self._resolve(tokenizer)
        return [
            list_of(self._encode(found, text, f"texts[{number}]", add_special_tokens, split_special_tokens))
            for number, text in enumerate(texts)
        ]

    def count(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> int:
        """Return how many ids a text has."""
        return len(self.encode_array(text, tokenizer, add_special_tokens, split_special_tokens))

    def offsets(self, text: str, tokenizer: str | None = None) -> npt.NDArray[np.int64]:
        """Return the (n, 2) spans of a text's ids in code points, as the reference reports them."""
        found = self._resolve(tokenizer)
        self._count("encodes")
        with mapped_errors():
            return found.offsets(_checked(text, "text"))

    def pieces(self, text: str, tokenizer: str | None = None) -> npt.NDArray[np.int64]:
        """Return where a text's pieces start, in code points."""
        found = self._resolve(tokenizer)
        self._count("encodes")
        with mapped_errors():
            return found.pieces(_checked(text, "text"))

    def decode(self, ids: Sequence[int], tokenizer: str | None = None, skip_special_tokens: bool = False) -> str:
        """Return the text of ids. Raises BadRequestError naming the position of an id that is none."""
        found = self._resolve(tokenizer)
        given: list[int] = np.frombuffer(packed_ids(ids), dtype="<u4").tolist()
        with mapped_errors():
            return found.decode(given, skip_special_tokens)

    # -- the tier's part --------------------------------------------------------------------------------------

    def tokenizers(self) -> list[dict[str, str]]:
        """Return name, sha256, status ('native' or 'reference') and reason of every tokenizer."""
        return [
            {"name": name, "sha256": one.sha256, "status": one.status, "reason": one.reason}
            for name, one in sorted(self._tokenizers.items())
        ]

    def stats(self) -> dict[str, Any]:
        """Return counters, under the names that a tier's have."""
        with self._lock:
            counted: dict[str, Any] = dict(self._counters)
            sessions = list(self._sessions)
        counted["mismatches"] = sum(one.mismatches for one in {id(t): t for t in self._tokenizers.values()}.values())
        counted["chunk_cache_bytes"] = sum(
            one.chunk_cache_bytes for one in {id(t): t for t in self._tokenizers.values()}.values()
        )
        counted["sessions"] = len(sessions)
        counted["session_bytes"] = sum(session.memory_bytes for session in sessions)
        return counted

    def session(
        self,
        session_id: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> EmbeddedSession:
        """Open a session. Its id is a name only: a second session of the same id is another session."""
        check_session_id(session_id)
        made = self._resolve(tokenizer).session(
            add_special_tokens=add_special_tokens, split_special_tokens=split_special_tokens
        )
        return EmbeddedSession(self, session_id, made)

    def close(self) -> None:
        """Do nothing: there is no connection. Sessions and tokenizers go with the last who holds them."""

    def __enter__(self) -> Embedded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- within -----------------------------------------------------------------------------------------------

    def _encode(
        self,
        tokenizer: engine.Tokenizer,
        text: str,
        place: str,
        add_special_tokens: bool,
        split_special_tokens: bool,
        threads: int = 1,
    ) -> npt.NDArray[np.uint32]:
        self._count("encodes")
        _checked_type(text, place)
        try:
            return tokenizer.encode(
                text,
                add_special_tokens=add_special_tokens,
                split_special_tokens=split_special_tokens,
                threads=threads,
            )
        except EngineError as error:
            raise client_error(error, place) from None

    def _resolve(self, tokenizer: str | None) -> engine.Tokenizer:
        if tokenizer is None:
            if len(self._tokenizers) != 1:
                names = ", ".join(self._tokenizers)
                raise BadRequestError(f"tokenizer= must be given where there are several: {names}")
            return next(iter(self._tokenizers.values()))
        found = self._tokenizers.get(tokenizer)
        if found is None:
            found = next((one for one in self._tokenizers.values() if one.sha256 == tokenizer), None)
        if found is None:
            raise UnknownTokenizerError(f"no tokenizer {tokenizer!r} here; there are {', '.join(self._tokenizers)}")
        return found

    def after_fork(self) -> None:
        """Put locks and sessions in order in a child of this process; see kernels/forks.py."""
        self._lock = threading.Lock()
        # A new set: whoever walked the old one never comes to its end here, and it would keep what is dropped.
        self._sessions = weakref.WeakSet(session for session in list(self._sessions) if session._survived())

    def _count(self, counter: str, chars_encoded: int = 0) -> None:
        with self._lock:
            self._counters[counter] += 1
            self._counters["chars_encoded"] += chars_encoded


class EmbeddedSession:
    """A text that changes, and its ids. Get one from an Embedded's `session`."""

    def __init__(self, owner: Embedded, session_id: str, made: engine.Session) -> None:
        self.session_id = session_id
        self._owner = owner
        #: Guards everything below.
        self._lock = threading.Lock()
        self._engine = made
        #: The text as the last call brought it, where that makes the next search for a change quicker; else None.
        self._turn: str | None = None
        #: What `ids` gave out, kept equal to the engine's; None until somebody asks.
        self._live: list[int] | None = None
        #: False from before the engine changes until `_live` has followed. Who finds it so between calls finds one that
        #: was broken off (KeyboardInterrupt, MemoryError), and takes the engine's word.
        self._settled = True
        #: Whether a call was answered. Before, there are no ids, even where an empty text has some.
        self._answered = False
        self._last: Outcome | None = None
        self._closed = False
        with owner._lock:
            owner._sessions.add(self)

    def encode(self, text: str) -> list[int]:
        """Return the ids of this turn's whole text; what is new in it alone is encoded."""
        with self._lock:
            self._become(text)
            return self._copy()

    def append(self, delta: str) -> list[int]:
        """Add to the text; return all its ids."""
        with self._lock:
            self._append(delta)
            return self._copy()

    def encode_patch(self, text: str) -> Patch:
        """Return how the ids change from the last turn's to those of this turn's whole text."""
        with self._lock:
            return self._become(text)

    def append_patch(self, delta: str) -> Patch:
        """Add to the text; return how the ids change, in time of the change."""
        with self._lock:
            return self._append(delta)

    def edit(self, start: int, stop: int, replacement: str) -> Patch:
        """Replace the code points [start, stop); return how the ids change, in time of the change."""
        with self._lock:
            started = self._begin()
            length = self._engine.chars
            check_range(start, stop, length)
            _checked_type(replacement, "replacement")
            place = "delta" if start == length else "replacement"
            return self._replace(start, stop, replacement, place, 0, started)

    @property
    def ids(self) -> list[int]:
        """The live list: the next call changes it in place. Copy it to keep it."""
        with self._lock:
            return self._all()

    @property
    def text(self) -> str:
        """The text so far."""
        with self._lock:
            return self._engine.text() if self._turn is None else self._turn

    @property
    def memory_bytes(self) -> int:
        """Bytes of the engine's text and ids; the list that `ids` gives out is not counted."""
        with self._lock:
            return self._engine.memory_bytes

    @property
    def unshared_bytes(self) -> int:
        """The part of memory_bytes that no fork shares: what dropping this session would give back."""
        with self._lock:
            return self._engine.unshared_bytes

    @property
    def last(self) -> Outcome | None:
        """How the last call was answered; None before the first."""
        return self._last

    def fork(self, session_id: str) -> EmbeddedSession:
        """Return a session of the same text that goes its own way; both share what is equal."""
        check_session_id(session_id)
        with self._lock:
            self._check_open()
            twin = EmbeddedSession(self._owner, session_id, self._engine.fork())
            twin._turn, twin._answered = self._turn, self._answered
        self._owner._count("forks")
        return twin

    def close(self) -> None:
        """Let go of the text and its ids. A second close does nothing."""
        with self._lock:
            self._closed = True
        with self._owner._lock:
            self._owner._sessions.discard(self)

    def __enter__(self) -> EmbeddedSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _survived(self) -> bool:
        """In a child: whether no thread of the parent's was changing this session. If one was, it closes."""
        if not forks.was_held(self._lock):
            return True
        if self._settled:  # who held the lock only looked, or had not begun
            self._lock = threading.Lock()
            return True
        _torn.append(self._engine)
        lost: Any = _Lost(self.session_id)
        self._engine, self._turn, self._live = lost, None, None
        self._answered = self._settled = self._closed = True
        self._lock = threading.Lock()
        return False

    # -- within, under the lock -------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"session {self.session_id!r} is closed")

    def _begin(self) -> float:
        self._check_open()
        started = time.perf_counter()
        self._settle()
        return started

    def _settle(self) -> None:
        if self._settled:
            return
        if self._live is not None:
            self._live[:] = self._given()
        self._settled = True

    def _given(self) -> list[int]:
        return self._engine.ids_list() if self._answered else []

    def _all(self) -> list[int]:
        self._settle()
        if self._live is None:
            self._live = self._given()
        return self._live

    def _copy(self) -> list[int]:
        return self._engine.ids_list() if self._live is None else self._live.copy()

    def _append(self, delta: str) -> Patch:
        started = self._begin()
        _checked_type(delta, "delta")
        if not delta and self._answered:
            return self._nothing(started)
        self._unsettle()
        try:
            splice = self._engine.append_list(delta)
        except EngineError as error:
            self._settled = True
            raise client_error(error, "delta") from None
        return self._done(splice, started)

    def _become(self, text: str) -> Patch:
        started = self._begin()
        _checked_type(text, "text")
        old = self._turn
        prefix, suffix = self._engine.shared_ends(text) if old is None else shared_ends(old, text)
        stop = self._engine.chars - suffix
        patch = self._replace(prefix, stop, text[prefix : len(text) - suffix], "text", prefix, started)
        # An ASCII str is compared with the engine's own text as fast as with another str, where all of that is kept.
        self._turn = None if text.isascii() and not self._engine.spells else text
        return patch

    def _replace(self, start: int, stop: int, text: str, place: str, offset: int, started: float) -> Patch:
        if start == stop and not text and self._answered:
            return self._nothing(started)
        self._unsettle()
        try:
            splice = self._engine.replace_list(start, stop, text)
        except EngineError as error:
            self._settled = True
            utf8(text, place, offset)  # names the position in the caller's text
            raise client_error(error, place) from None
        return self._done(splice, started)

    def _unsettle(self) -> None:
        self._turn = None
        self._settled = False

    def _nothing(self, started: float) -> Patch:
        self._last = Outcome("append", 0, time.perf_counter() - started)
        count = self._engine.token_count
        return Patch(count, count, [])

    def _done(self, splice: tuple[int, int, list[int]], started: float) -> Patch:
        if not self._answered:
            splice = (0, 0, self._engine.ids_list())
        start, stop, ids = splice
        if self._live is not None:
            self._live[start:stop] = ids
        self._answered = True
        self._settled = True
        path, chars_encoded = self._engine.work
        self._last = Outcome(path, chars_encoded, time.perf_counter() - started)
        self._owner._count(_PATH_COUNTERS[path], chars_encoded)
        return Patch(start, stop, ids)


#: Engine sessions that a fork caught in the midst of a change. Kept, as nothing may touch them, not even to free them.
_torn: list[engine.Session] = []


class _Lost:
    """Stands in a child for an engine's session that was torn."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id

    def __getattr__(self, name: str) -> Any:
        raise ClosedError(f"session {self._session_id!r} is closed: another thread changed it as the process forked")


@contextmanager
def mapped_errors(place: str = "text") -> Iterator[None]:
    """Turn the engine's errors into the client's."""
    try:
        yield
    except EngineError as error:
        raise client_error(error, place) from None


def client_error(error: EngineError, place: str) -> BadRequestError:
    """Return the client's error for one of the engine's; `place` names the argument that held a bad text."""
    if isinstance(error, BadTextError):
        return BadRequestError(f"{place}: {error}", error.position)
    return BadRequestError(str(error))


def _checked_type(text: str, place: str) -> None:
    if not isinstance(text, str):
        raise BadRequestError(f"{place}: must be a str, not {type(text).__name__}")


def _checked(text: str, place: str) -> str:
    _checked_type(text, place)
    return text


__all__ = ["Embedded", "EmbeddedSession", "mapped_errors"]
