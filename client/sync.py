"""The client of a broker, for threads. Generated from aio.py by scripts/unasync.py: do not edit.

A tier answers for many sessions at once; a session answers one call at a time, others wait for it. What a session does
is session.py's matter, how messages travel is transport.py's; here they meet, and here faults end: a busy tier is
asked again, a lost reply is asked for again, lost state is sent again, until the call's timeout.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from tokseam.broker import protocol
from tokseam.broker.protocol import (
    ADD_SPECIAL_TOKENS,
    SKIP_SPECIAL_TOKENS,
    SPLIT_SPECIAL_TOKENS,
    Buffer,
    Reply,
    Request,
)

from .errors import (
    BadRequestError,
    BusyError,
    ClosedError,
    InternalError,
    RequestTimeoutError,
    StaleError,
    TokseamError,
    TooLargeError,
    UnknownTokenizerError,
    error_of,
)
from .ids import as_list, batches, flat_ids, numbers, packed_ids, positions
from .locks import CallLock
from .session import Change, Outcome, Patch, Turns, check_session_id, utf8
from .transport import SyncTransport

#: Seconds that a call may take, and connecting.
TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
#: Seconds that closing a session may take: it saves the worker some memory, no more.
CLOSE_TIMEOUT_S = 2.0
#: Times that a change is sent in full before giving up: each time but the last a worker died or forgot in between.
ATTEMPTS = 5
#: Batch messages under way at a time: enough to keep several workers busy, few enough to bound memory.
BATCH_WINDOW = 16


def connect(
    endpoint: str | None = None,
    *,
    tenant: str = "",
    timeout: float = TIMEOUT_S,
    connect_timeout: float = CONNECT_TIMEOUT_S,
) -> Tier:
    """Connect to a tier: `endpoint`, or TOKSEAM_ENDPOINT, or this user's own.

    Waits up to `connect_timeout` seconds for the tier to be ready. Raises ConnectError when nobody answers.
    """
    tier = Tier(endpoint or protocol.default_endpoint(), tenant=tenant, timeout=timeout)
    try:
        tier._hello(connect_timeout)
    except BaseException:
        tier.close()
        raise
    return tier


class Tier:
    """A connection to a broker. Get one from `connect`."""

    def __init__(self, endpoint: str, *, tenant: str = "", timeout: float = TIMEOUT_S) -> None:
        self.endpoint = endpoint
        self.tenant = tenant
        self.timeout = timeout
        self._transport = SyncTransport(endpoint)
        #: Request ids: eight random bytes, then a counter; never used twice.
        self._nonce = os.urandom(protocol.REQUEST_ID_BYTES - 8)
        self._counter = itertools.count()
        #: As the last hello told.
        self._tokenizers: list[dict[str, str]] = []
        self._message_bytes = protocol.MESSAGE_MAX_BYTES

    # -- texts and ids ----------------------------------------------------------------------------------------

    def encode(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> list[int]:
        """Encode one text in full. `tokenizer` may be left out when the tier has one only."""
        return as_list(self.encode_array(text, tokenizer, add_special_tokens, split_special_tokens))

    def encode_array(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> npt.NDArray[np.uint32]:
        """Encode one text in full, as an array: no Python number is made."""
        reply = self._ask("encode", tokenizer, [utf8(text)], _flags(add_special_tokens, split_special_tokens))
        return numbers(reply.body[0])

    def encode_batch(
        self,
        texts: Sequence[str],
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> list[list[int]]:
        """Encode many texts, spread over the workers."""
        sha256 = self._resolve(tokenizer)
        encoded = [utf8(text, f"texts[{number}]") for number, text in enumerate(texts)]
        flags = _flags(add_special_tokens, split_special_tokens)
        found: list[list[int]] = []
        groups = batches(encoded)
        for first in range(0, len(groups), BATCH_WINDOW):
            requests = []
            for body in groups[first : first + BATCH_WINDOW]:
                request = self._request("batch")
                request.tokenizer, request.flags, request.body = sha256, flags, body
                requests.append(request)
            for reply in self._calls(requests):
                found += flat_ids(reply.body[0], reply.body[1])
        return found

    def count(
        self,
        text: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> int:
        """Return how many ids a text has."""
        reply = self._ask("count", tokenizer, [utf8(text)], _flags(add_special_tokens, split_special_tokens))
        if reply.count is None:
            raise InternalError("the answer to a count holds none")
        return reply.count

    def offsets(self, text: str, tokenizer: str | None = None) -> npt.NDArray[np.int64]:
        """Return the (n, 2) spans of a text's ids in code points, as the reference reports them."""
        reply = self._ask("offsets", tokenizer, [utf8(text)])
        return positions(reply.body[0]).reshape(-1, 2)

    def pieces(self, text: str, tokenizer: str | None = None) -> npt.NDArray[np.int64]:
        """Return where a text's pieces start, in code points."""
        reply = self._ask("pieces", tokenizer, [utf8(text)])
        return positions(reply.body[0])

    def decode(self, ids: Sequence[int], tokenizer: str | None = None, skip_special_tokens: bool = False) -> str:
        """Return the text of ids. Raises BadRequestError naming the position of an id that is none."""
        flags = SKIP_SPECIAL_TOKENS if skip_special_tokens else 0
        reply = self._ask("decode", tokenizer, [packed_ids(ids)], flags)
        return str(reply.body[0], "utf-8")

    # -- the tier ---------------------------------------------------------------------------------------------

    def tokenizers(self) -> list[dict[str, str]]:
        """Return name, sha256, status ('native' or 'reference') and reason of every tokenizer.

        One that gave a wrong answer is demoted to 'reference' until `restore`; its entry says since when: 'demoted'.
        """
        self._hello(self.timeout)
        return [dict(entry) for entry in self._tokenizers]

    def stats(self) -> dict[str, Any]:
        """Return the tier's counters: the workers' sums, and under 'broker' and 'workers' each one's own."""
        reply = self._call(self._request("stats"))
        return reply.stats or {}

    def restore(self, tokenizer: str) -> bool:
        """Lift a tokenizer's demotion, on every worker: an operator's decision. Returns whether it was demoted."""
        request = self._request("restore")
        request.tokenizer = tokenizer
        reply = self._call(request)
        return bool(reply.count)

    def ping(self) -> float:
        """Return the seconds that a message takes to the broker and back."""
        started = time.perf_counter()
        self._call(self._request("ping"))
        return time.perf_counter() - started

    def session(
        self,
        session_id: str,
        tokenizer: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
    ) -> Session:
        """Open a session. Nothing travels before its first call; one of the same id by another client is not shared."""
        check_session_id(session_id)
        sha256 = self._resolve(tokenizer)
        return Session(self, session_id, Turns(sha256, _flags(add_special_tokens, split_special_tokens)))

    def close(self) -> None:
        """Close the connection. Sessions stay with their workers until those need the room."""
        self._transport.close()

    def __enter__(self) -> Tier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- requests ---------------------------------------------------------------------------------------------

    def _request(self, op: str) -> Request:
        return Request(op, self._nonce + next(self._counter).to_bytes(8, "little"), self.tenant)

    def _ask(self, op: str, tokenizer: str | None, body: list[Buffer], flags: int = 0) -> Reply:
        request = self._request(op)
        request.tokenizer, request.flags, request.body = self._resolve(tokenizer), flags, body
        reply = self._call(request)
        if len(reply.body) != 1 and op != "count":
            raise InternalError(f"the answer to '{op}' has {len(reply.body)} body frames")
        return reply

    def _call(
        self, request: Request, deadline: float | None = None, meanwhile: Callable[[], object] | None = None
    ) -> Reply:
        """Carry a request out: asks again while the tier is busy. `meanwhile` is called while the answer is under way.

        Raises the error that it is answered with. `deadline` is one of the monotonic clock; without it, the tier's.
        """
        if deadline is None:
            deadline = time.monotonic() + self.timeout
        while True:
            reply = self._transport.exchange_one(*self._packed(request, deadline), deadline, meanwhile)
            if reply.code == protocol.OK:
                return reply
            error = error_of(reply)
            if not isinstance(error, BusyError):
                raise error
            time.sleep(_pause(error, deadline))

    def _calls(self, requests: Sequence[Request]) -> list[Reply]:
        """Carry requests out side by side. Raises the first error that any of them meets."""
        deadline = time.monotonic() + self.timeout
        answered: dict[bytes, Reply] = {}
        left = list(requests)
        while True:
            messages = [self._packed(request, deadline) for request in left]
            busy: BusyError | None = None
            again: list[Request] = []
            for request, reply in zip(left, self._transport.exchange(messages, deadline), strict=True):
                if reply.code == protocol.OK:
                    answered[request.request_id] = reply
                    continue
                error = error_of(reply)
                if not isinstance(error, BusyError):
                    raise error
                busy = error
                again.append(request)
            if busy is None:
                return [answered[request.request_id] for request in requests]
            time.sleep(_pause(busy, deadline))
            left = again

    def _packed(self, request: Request, deadline: float) -> tuple[bytes, list[Buffer]]:
        """Return a request's id and frames, with the time that it has left. Raises TooLargeError."""
        request.budget_ms = min(max(0, int((deadline - time.monotonic()) * 1000)), 2**31)
        frames = protocol.pack_request(request)
        size = sum(map(len, frames))
        if size > self._message_bytes:
            raise TooLargeError(f"the message has {size} bytes; the limit is {self._message_bytes}")
        return request.request_id, frames

    def _hello(self, timeout: float) -> None:
        reply = self._call(self._request("hello"), time.monotonic() + timeout)
        self._tokenizers = reply.tokenizers or []
        self._message_bytes = (reply.limits or {}).get("message_bytes", self._message_bytes)

    def _resolve(self, tokenizer: str | None) -> str:
        """Return a tokenizer's hash by its name or hash; asks the broker when it is not known yet."""
        found = self._lookup(tokenizer)
        if found is None:
            self._hello(self.timeout)
            found = self._lookup(tokenizer)
        if found is None:
            names = ", ".join(entry["name"] for entry in self._tokenizers)
            raise UnknownTokenizerError(f"no tokenizer {tokenizer!r} here; there are {names}")
        return found

    def _lookup(self, tokenizer: str | None) -> str | None:
        if tokenizer is None:
            if len({entry["sha256"] for entry in self._tokenizers}) > 1:
                names = ", ".join(entry["name"] for entry in self._tokenizers)
                raise BadRequestError(f"tokenizer= must be given where there are several: {names}")
            return self._tokenizers[0]["sha256"] if self._tokenizers else None
        for entry in self._tokenizers:
            if tokenizer in (entry["name"], entry["sha256"]):
                return entry["sha256"]
        return None


class Session:
    """A text that changes, and its ids. Get one from a tier's `session`."""

    def __init__(self, tier: Tier, session_id: str, turns: Turns) -> None:
        self.session_id = session_id
        self._tier = tier
        #: Guarded by `_lock`, and so is `_last`: one call at a time.
        self._turns = turns
        self._lock = CallLock()
        self._last: Outcome | None = None
        self._closed = False

    def encode(self, text: str) -> list[int]:
        """Return the ids of this turn's whole text; what is new in it alone travels and is encoded."""
        self.encode_patch(text)
        return self._turns.ids.copy()

    def append(self, delta: str) -> list[int]:
        """Add to the text; return all its ids."""
        self.append_patch(delta)
        return self._turns.ids.copy()

    def encode_patch(self, text: str) -> Patch:
        """Return how the ids change from the last turn's to those of this turn's whole text."""
        return self._apply(self._turns.plan_turn, text)

    def append_patch(self, delta: str) -> Patch:
        """Add to the text; return how the ids change, in time of the change."""
        return self._apply(self._turns.plan_append, delta)

    def edit(self, start: int, stop: int, replacement: str) -> Patch:
        """Replace the code points [start, stop); return how the ids change, in time of the change."""
        return self._apply(self._turns.plan_edit, start, stop, replacement)

    @property
    def ids(self) -> list[int]:
        """The live list: the next call changes it in place. Copy it to keep it."""
        return self._turns.ids

    @property
    def text(self) -> str:
        """The text so far."""
        return str(self._turns.text)

    @property
    def last(self) -> Outcome | None:
        """How the last call was answered; None before the first."""
        return self._last

    def fork(self, session_id: str) -> Session:
        """Return a session of the same text that goes its own way. Both share at the worker what is equal.

        Where the worker lost this session, the fork is opened by its first call, with its full text.
        """
        check_session_id(session_id)
        with self._lock:
            self._check_open()
            turns = self._turns.fork()
            if turns.base is not None:
                request = self._request("fork")
                request.new_session, request.tokenizer = session_id, turns.tokenizer
                request.revision, request.digest = turns.base
                try:
                    reply = self._tier._call(request)
                except StaleError:
                    turns.base = self._turns.base = None
                else:
                    if reply.digest != turns.base.digest or reply.revision != turns.base.revision:
                        turns.base = None
            return Session(self._tier, session_id, turns)

    def close(self) -> None:
        """Let the worker forget the session, if it can be told soon; in the end it does so anyway. Never raises."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._turns.base is not None:
                with contextlib.suppress(TokseamError):
                    self._tier._call(self._request("close"), time.monotonic() + CLOSE_TIMEOUT_S)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, op: str) -> Request:
        request = self._tier._request(op)
        request.session = self.session_id
        return request

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"session {self.session_id!r} is closed")

    def _apply(self, plan: Callable[..., Change], *asked: Any) -> Patch:
        """Carry out the change that is planned; lost state is sent again in full, unseen by the caller."""
        with self._lock:
            self._check_open()
            started = time.monotonic()
            turns = self._turns
            change = plan(*asked)
            deadline = started + self._tier.timeout
            for attempt in range(1, ATTEMPTS + 1):
                message = turns.message(change)
                if message is None:
                    self._last = Outcome("append", 0, time.monotonic() - started)
                    return turns.nothing()
                request = self._request(message.op)
                turns.address(request, message, change)
                if time.monotonic() >= deadline:
                    raise RequestTimeoutError("no worker kept the session long enough to answer in time")
                try:
                    reply = self._tier._call(request, deadline, message.prepare)
                    patch = turns.take(change, message, reply)
                except StaleError:
                    turns.base = None
                    if attempt == ATTEMPTS:
                        raise
                    continue
                path: Any = reply.path
                self._last = Outcome(path, reply.chars_encoded or 0, time.monotonic() - started)
                return patch
            raise AssertionError("unreachable")


def _pause(busy: BusyError, deadline: float) -> float:
    """Return the seconds to wait before asking again; raises the error where those are not left.

    Half to one and a half of what the broker asked for: clients refused together do not return together.
    """
    pause = busy.retry_after * random.uniform(0.5, 1.5)
    if time.monotonic() + pause >= deadline:
        raise busy
    return pause


def _flags(add_special_tokens: bool, split_special_tokens: bool) -> int:
    return (ADD_SPECIAL_TOKENS if add_special_tokens else 0) | (SPLIT_SPECIAL_TOKENS if split_special_tokens else 0)


__all__ = ["Session", "Tier", "connect"]
