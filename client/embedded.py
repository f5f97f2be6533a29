"""The engine in this process, with the surface of a tier: for tools, tests, and front ends that want no second process.

What a session does between turns and ids is the engine's matter; here its splices become patches and its errors the
client's. The engine keeps the text and the ids; a Python list of them is made when somebody first asks for it. Limits:
one process, its memory and its cores; sessions are not bounded.

Who guards what: an Embedded may be used by many threads; a session has a lock, so its calls come one after another.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTextError, BadTokenizerError, EngineError

from . import errors
from .errors import BadRequestError, ClosedError, UnknownTokenizerError
from .ids import packed_ids
from .session import Change, Outcome, Patch, change_between, check_range, check_session_id, utf8

_COUNTERS = ("encodes", "path_append", "path_edit", "path_fresh", "path_reference", "chars_encoded", "forks")


class Embedded:
    """Tokenizers by name, encoded with in this process.

    >>> engine = Embedded({"ds": "path/to/tokenizer.json"})  # doctest: +SKIP
    >>> engine.encode("Hello")                               # doctest: +SKIP
    """

    def __init__(self, tokenizers: Mapping[str, Any]) -> None:
        """Load each: a path to a tokenizer.json, a tokenizers.Tokenizer or a tiktoken.Encoding.

        Raises BadTokenizerError naming the one that can't be read.
        """
        self._tokenizers: dict[str, engine.Tokenizer] = {}
        for name, source in tokenizers.items():
            try:
                self._tokenizers[name] = source if isinstance(source, engine.Tokenizer) else engine.load(source)
            except BadTokenizerError as error:
                raise errors.BadTokenizerError(f"tokenizer {name}: {error}") from None
        #: Guards the counters.
        self._lock = threading.Lock()
        self._counters: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
        #: Open sessions that somebody still holds.
        self._sessions: weakref.WeakSet[EmbeddedSession] = weakref.WeakSet()

    # -- texts and ids ----------------------------------------------------------------------------------------

    def encode(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> list[int]:
        """Encode one text in full. `tokenizer` may be left out when there is one only."""
        ids: list[int] = self.encode_array(text, tokenizer, add_special_tokens, split_special_tokens).tolist()
        return ids

    def encode_array(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> npt.NDArray[np.uint32]:
        """Encode one text in full, as an array: no Python number is made."""
        return self._encode(self._resolve(tokenizer), text, "text", add_special_tokens, split_special_tokens)

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
            self._encode(found, text, f"texts[{number}]", add_special_tokens, split_special_tokens).tolist()
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
        self._count(encodes=1)
        with mapped_errors():
            return found.offsets(_checked(text, "text"))

    def pieces(self, text: str, tokenizer: str | None = None) -> npt.NDArray[np.int64]:
        """Return where a text's pieces start, in code points."""
        found = self._resolve(tokenizer)
        self._count(encodes=1)
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
        self, tokenizer: engine.Tokenizer, text: str, place: str, add_special_tokens: bool, split_special_tokens: bool
    ) -> npt.NDArray[np.uint32]:
        self._count(encodes=1)
        with mapped_errors(place):
            return tokenizer.encode(
                _checked(text, place), add_special_tokens=add_special_tokens, split_special_tokens=split_special_tokens
            )

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

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                self._counters[name] += number


class EmbeddedSession:
    """A text that changes, and its ids. Get one from an Embedded's `session`."""

    def __init__(self, owner: Embedded, session_id: str, made: engine.Session) -> None:
        self.session_id = session_id
        self._owner = owner
        #: Guards everything below.
        self._lock = threading.Lock()
        self._engine = made
        #: The text, if the last call brought all of it; otherwise the engine is asked when it is needed.
        self._turn: str | None = ""
        #: What `ids` gave out, kept equal to the engine's; None until somebody asks.
        self._live: list[int] | None = None
        #: Whether a call was answered. Before, there are no ids, even where an empty text has some.
        self._answered = False
        self._last: Outcome | None = None
        self._closed = False
        with owner._lock:
            owner._sessions.add(self)

    def encode(self, text: str) -> list[int]:
        """Return the ids of this turn's whole text; what is new in it alone is encoded."""
        with self._lock:
            self._apply(lambda: self._plan_turn(text))
            return self._all().copy()

    def append(self, delta: str) -> list[int]:
        """Add to the text; return all its ids."""
        with self._lock:
            self._apply(lambda: self._plan_append(delta))
            return self._all().copy()

    def encode_patch(self, text: str) -> Patch:
        """Return how the ids change from the last turn's to those of this turn's whole text."""
        with self._lock:
            return self._apply(lambda: self._plan_turn(text))

    def append_patch(self, delta: str) -> Patch:
        """Add to the text; return how the ids change, in time of the change."""
        with self._lock:
            return self._apply(lambda: self._plan_append(delta))

    def edit(self, start: int, stop: int, replacement: str) -> Patch:
        """Replace the code points [start, stop); return how the ids change, in time of the change."""
        with self._lock:
            return self._apply(lambda: self._plan_edit(start, stop, replacement))

    @property
    def ids(self) -> list[int]:
        """The live list: the next call changes it in place. Copy it to keep it."""
        with self._lock:
            return self._all()

    @property
    def text(self) -> str:
        """The text so far."""
        with self._lock:
            return self._text()

    @property
    def memory_bytes(self) -> int:
        """Bytes of the engine's text and ids; the list that `ids` gives out is not counted."""
        with self._lock:
            return self._engine.memory_bytes

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
        self._owner._count(forks=1)
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

    # -- within, under the lock -------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"session {self.session_id!r} is closed")

    def _text(self) -> str:
        if self._turn is None:
            self._turn = self._engine.text()
        return self._turn

    def _all(self) -> list[int]:
        if self._live is None:
            self._live = self._engine.ids().tolist() if self._answered else []
        return self._live

    def _plan_turn(self, text: str) -> Change:
        _checked_type(text, "text")
        return change_between(self._text(), text)

    def _plan_append(self, delta: str) -> Change:
        _checked_type(delta, "delta")
        return Change(self._engine.chars, self._engine.chars, delta)

    def _plan_edit(self, start: int, stop: int, replacement: str) -> Change:
        check_range(start, stop, self._engine.chars)
        _checked_type(replacement, "replacement")
        return Change(start, stop, replacement)

    def _apply(self, plan: Callable[[], Change]) -> Patch:
        self._check_open()
        started = time.perf_counter()
        length = self._engine.chars
        change = plan()
        is_append = change.start == length
        if change.whole is not None:
            payload = utf8(change.text, "text", change.start)
        else:
            payload = utf8(change.text, "delta" if is_append else "replacement")
        if self._answered and not payload and change.start == change.stop:
            self._last = Outcome("append", 0, time.perf_counter() - started)
            count = self._engine.token_count
            return Patch(count, count, [])
        with mapped_errors():
            if change.start == 0 and change.stop == length:
                splice = self._engine.reset(payload)
            elif is_append:
                splice = self._engine.append(payload)
            else:
                splice = self._engine.edit(change.start, change.stop, payload)
        if not self._answered:
            splice = engine.Splice(0, 0, self._engine.ids())
            self._answered = True
        self._turn = change.whole
        patch = Patch(splice.start, splice.stop, splice.ids.tolist())
        if self._live is not None:
            self._live[patch.start : patch.stop] = patch.ids
        path, chars_encoded = self._engine.work
        self._last = Outcome(path, chars_encoded, time.perf_counter() - started)
        self._owner._count(**{f"path_{path}": 1, "chars_encoded": chars_encoded})
        return patch


@contextmanager
def mapped_errors(place: str = "text") -> Iterator[None]:
    """Turn the engine's errors into the client's."""
    try:
        yield
    except BadTextError as error:
        raise BadRequestError(f"{place}: {error}", error.position) from None
    except EngineError as error:
        raise BadRequestError(str(error)) from None


def _checked_type(text: str, place: str) -> None:
    if not isinstance(text, str):
        raise BadRequestError(f"{place}: must be a str, not {type(text).__name__}")


def _checked(text: str, place: str) -> str:
    _checked_type(text, place)
    return text


__all__ = ["Embedded", "EmbeddedSession", "mapped_errors"]
