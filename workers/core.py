"""A repair worker's state and answers: requests in, replies out. Pure: no sockets, no processes, no clock.

It owns sessions: an engine session each, with the revision and running digest that a continuation has to build on, and
the last replies by request id, so that a request sent again is answered and not applied again. Sessions are bounded by
number and by bytes; the least recently used goes, and its client finds it 'stale'.

Limits: one thread at a time. Whether a message may come here at all is the broker's matter.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from tokseam.broker import protocol
from tokseam.broker.protocol import (
    ADD_SPECIAL_TOKENS,
    BAD_REQUEST,
    INTERNAL,
    OK,
    SKIP_SPECIAL_TOKENS,
    SPLIT_SPECIAL_TOKENS,
    STALE,
    TOO_LARGE,
    UNKNOWN_TOKENIZER,
    Buffer,
    Reply,
    Request,
    SessionKey,
    WireError,
)
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTextError, EngineError

log = logging.getLogger("tokseam.worker")


class Limits(NamedTuple):
    """What bounds a worker's memory."""

    #: Sessions held; at 100 K characters and 9 bytes a token of 4 characters each, 4,096 are about 1 GiB.
    sessions: int = 4096
    #: Bytes over all sessions, replies kept included.
    session_bytes: int = 4 * 1024**3
    #: Bytes of one session's text. Its client must be able to send all of it in one message.
    text_bytes: int = protocol.MESSAGE_MAX_BYTES - protocol.HEADER_MAX_BYTES
    #: Largest request, in bytes over all its frames.
    message_bytes: int = protocol.MESSAGE_MAX_BYTES
    #: Replies kept per session: a client has one request of a session under way, so the last is enough; a few more
    #: serve clients that share a session.
    replies: int = 4
    #: Bytes of one reply that is kept. A larger one (a full text's) is not: it is computed again, to the same effect.
    reply_bytes: int = 64 * 1024


@dataclass(slots=True)
class Held:
    """One session."""

    engine: engine.Session
    sha256: str
    flags: int
    #: One more with each change applied.
    revision: int
    #: Determines the text: see protocol.digest_change.
    digest: bytes
    #: UTF-8 bytes of the text at most: what an edit removes is not subtracted until the bound is reached.
    text_bytes: int
    #: What the engine's memory and the replies came to when last measured; WorkerCore.session_bytes is their sum.
    memory_bytes: int = 0
    #: Bytes of `replies`.
    reply_bytes: int = 0
    #: Packed replies by request id, oldest first.
    replies: OrderedDict[bytes, list[Buffer]] = field(default_factory=OrderedDict)


_COUNTERS = (
    "requests",
    "encodes",
    "path_append",
    "path_edit",
    "path_fresh",
    "path_reference",
    "chars_encoded",
    "forks",
    "stale",
    "resent",
    "evicted",
    "refused",
    "failed",
)


class WorkerCore:
    """Tokenizers by name and content hash, sessions by tenant and id, and an answer for every request."""

    def __init__(self, tokenizers: dict[str, engine.Tokenizer], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.names = dict(tokenizers)
        #: By SHA-256 and by name; a name never looks like a hash of another.
        self._tokenizers = {tokenizer.sha256: tokenizer for tokenizer in tokenizers.values()} | self.names
        #: Least recently used first. Sum of their memory is `session_bytes`.
        self.sessions: OrderedDict[SessionKey, Held] = OrderedDict()
        self.session_bytes = 0
        self.counters: dict[str, int] = dict.fromkeys(_COUNTERS, 0)

    def describe(self) -> list[dict[str, str]]:
        """Return what `tokenizers` answers: name, sha256, status and reason."""
        return [
            {"name": name, "sha256": one.sha256, "status": one.status, "reason": one.reason}
            for name, one in self.names.items()
        ]

    def stats(self) -> dict[str, int]:
        unique = {tokenizer.sha256: tokenizer for tokenizer in self.names.values()}
        mismatches = sum(tokenizer.mismatches for tokenizer in unique.values())
        return {
            **self.counters,
            "mismatches": mismatches,
            "sessions": len(self.sessions),
            "session_bytes": self.session_bytes,
        }

    def handle(self, frames: Sequence[Buffer]) -> tuple[str, list[Buffer]]:
        """Answer one request: its reply's code, and the reply's frames. Never raises."""
        self.counters["requests"] += 1
        request_id: bytes | None = None
        try:
            request = protocol.unpack_request(frames, self.limits.message_bytes)
            request_id = request.request_id
            stored = self._stored(request)
            if stored is not None:
                self.counters["resent"] += 1
                return OK, stored
            reply, held = self._answer(request)
            packed = protocol.pack_reply(reply)
            if held is not None:
                self._keep(held, request.request_id, packed)
            return reply.code, packed
        except WireError as error:
            self.counters["stale" if error.code == STALE else "refused"] += 1
            return error.code, protocol.pack_reply(Reply(error.request_id or request_id, error.code, error.message))
        except BadTextError as error:
            return self._refuse(request_id, f"body: {error}")
        except EngineError as error:
            return self._refuse(request_id, str(error))
        except MemoryError:
            self.counters["refused"] += 1
            return TOO_LARGE, protocol.pack_reply(Reply(request_id, TOO_LARGE, "no memory for this text"))
        except Exception as error:
            self.counters["failed"] += 1
            log.exception("a request failed")
            return INTERNAL, protocol.pack_reply(Reply(request_id, INTERNAL, f"the worker failed: {error!r}"))

    def _refuse(self, request_id: bytes | None, message: str) -> tuple[str, list[Buffer]]:
        self.counters["refused"] += 1
        return BAD_REQUEST, protocol.pack_reply(Reply(request_id, BAD_REQUEST, message))

    # -- operations -------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> tuple[Reply, Held | None]:
        """Carry a request out. Returns its reply, and the session that has to remember it."""
        op = request.op
        if op == "full":
            return self._full(request)
        if op in ("append", "edit"):
            return self._change(request)
        if op == "fork":
            return self._fork(request)
        if op == "close":
            self._drop(request.key)
            return Reply(request.request_id), None
        return self._stateless(request, self._tokenizer(request)), None

    def _stateless(self, request: Request, tokenizer: engine.Tokenizer) -> Reply:
        reply = Reply(request.request_id)
        body = request.body[0]
        flags = request.flags
        if request.op == "decode":
            text = tokenizer.decode(_numbers(body, "body").tolist(), bool(flags & SKIP_SPECIAL_TOKENS))
            reply.body = [text.encode()]
            return reply
        self.counters["encodes"] += 1
        if request.op == "offsets":
            reply.body = [_packed(tokenizer.offsets(body))]
        elif request.op == "pieces":
            reply.body = [_packed(tokenizer.pieces(body))]
        elif request.op == "batch":
            reply.body = self._batch(tokenizer, request)
        else:
            ids = _encode(tokenizer, body, flags)
            if request.op == "count":
                reply.count = len(ids)
            else:
                reply.body = [_packed(ids)]
        return reply

    def _batch(self, tokenizer: engine.Tokenizer, request: Request) -> list[Buffer]:
        lengths = _numbers(request.body[0], "body frame 1")
        texts = memoryview(request.body[1])
        ends = np.cumsum(lengths, dtype=np.uint64)
        if (int(ends[-1]) if len(ends) else 0) != len(texts):
            raise WireError(
                BAD_REQUEST,
                f"body frame 1: the lengths come to {int(ends[-1]) if len(ends) else 0} bytes, "
                f"frame 2 has {len(texts)}",
                request.request_id,
            )
        encoded = []
        start = 0
        for number, end in enumerate(ends.tolist()):
            try:
                encoded.append(_encode(tokenizer, bytes(texts[start:end]), request.flags))
            except BadTextError as error:
                raise WireError(BAD_REQUEST, f"body: text {number}: {error}", request.request_id) from None
            start = end
        counts = np.array([len(ids) for ids in encoded], dtype=np.uint32)
        return [_packed(counts), _packed(np.concatenate(encoded)) if encoded else b""]

    def _full(self, request: Request) -> tuple[Reply, Held]:
        tokenizer = self._tokenizer(request)
        text = request.body[0]
        self._check_text_size(request, len(text))
        previous = self.sessions.get(request.key)
        digest = protocol.digest_full(tokenizer.sha256, request.flags, text)
        if previous is not None and previous.digest == digest:
            # Sent again after its reply was lost: the state stays, or a continuation under way would find it stale.
            return self._patched(request, previous, engine.Splice(0, 0, previous.engine.ids())), previous
        session = tokenizer.session(
            add_special_tokens=bool(request.flags & ADD_SPECIAL_TOKENS),
            split_special_tokens=bool(request.flags & SPLIT_SPECIAL_TOKENS),
        )
        session.reset(text)
        held = Held(
            session,
            tokenizer.sha256,
            request.flags,
            1 if previous is None else previous.revision + 1,
            digest,
            len(text),
        )
        self._hold(request.key, held)
        ids = session.ids()
        return self._patched(request, held, engine.Splice(0, 0, ids)), held

    def _change(self, request: Request) -> tuple[Reply, Held]:
        held = self._at_base(request)
        payload = request.body[0]
        if held.text_bytes + len(payload) > self.limits.text_bytes:
            held.text_bytes = len(held.engine.text().encode())
            self._check_text_size(request, held.text_bytes + len(payload))
        if request.op == "append":
            splice = held.engine.append(payload)
        else:
            splice = held.engine.edit(request.start, request.stop, payload)
        held.text_bytes += len(payload)
        held.revision += 1
        held.digest = protocol.digest_change(held.digest, request.op, request.start, request.stop, payload)
        self._measure(request.key, held)
        return self._patched(request, held, splice), held

    def _fork(self, request: Request) -> tuple[Reply, Held]:
        held = self._at_base(request)
        twin = Held(held.engine.fork(), held.sha256, held.flags, held.revision, held.digest, held.text_bytes)
        self.counters["forks"] += 1
        self._hold(request.new_key, twin)
        return Reply(request.request_id, revision=twin.revision, digest=twin.digest), twin

    def _patched(self, request: Request, held: Held, splice: engine.Splice) -> Reply:
        work = held.engine.work
        self.counters[f"path_{work.path}"] += 1
        self.counters["chars_encoded"] += work.chars_encoded
        return Reply(
            request.request_id,
            revision=held.revision,
            digest=held.digest,
            start=splice.start,
            stop=splice.stop,
            path=work.path,
            chars_encoded=work.chars_encoded,
            body=[_packed(splice.ids)],
        )

    # -- sessions ---------------------------------------------------------------------------------------------

    def _tokenizer(self, request: Request) -> engine.Tokenizer:
        found = self._tokenizers.get(request.tokenizer)
        if found is None:
            raise WireError(
                UNKNOWN_TOKENIZER,
                f"header key 'tk': no tokenizer {request.tokenizer!r} here; there are {', '.join(self.names)}",
                request.request_id,
            )
        return found

    def _at_base(self, request: Request) -> Held:
        """Return the session if it stands where the request builds on. Raises WireError('stale') if it does not."""
        sha256 = self._tokenizer(request).sha256
        held = self.sessions.get(request.key)
        if held is None:
            raise WireError(STALE, "the session is not here; send the full text", request.request_id)
        if (held.revision, held.digest, held.sha256) != (request.revision, request.digest, sha256):
            raise WireError(
                STALE,
                f"the session is at revision {held.revision} of another text; send the full text",
                request.request_id,
            )
        self.sessions.move_to_end(request.key)
        return held

    def _stored(self, request: Request) -> list[Buffer] | None:
        """Return the reply that this very request got before, if it is one of a session and still kept."""
        if not request.session:
            return None
        held = self.sessions.get(request.new_key if request.op == "fork" else request.key)
        return None if held is None else held.replies.get(request.request_id)

    def _keep(self, held: Held, request_id: bytes, packed: list[Buffer]) -> None:
        size = sum(len(frame) for frame in packed)
        if size > self.limits.reply_bytes:
            return
        held.replies[request_id] = packed
        held.reply_bytes += size
        while len(held.replies) > self.limits.replies:
            _, oldest = held.replies.popitem(last=False)
            held.reply_bytes -= sum(len(frame) for frame in oldest)

    def _hold(self, key: SessionKey, held: Held) -> None:
        self._drop(key)
        self.sessions[key] = held
        self._measure(key, held)

    def _measure(self, key: SessionKey, held: Held) -> None:
        """Bring the books up to date after a change, and evict what is too much, but never `key` itself."""
        # The reply to the change that is being measured is kept afterwards, and counted at the next.
        size = held.engine.memory_bytes + held.reply_bytes
        self.session_bytes += size - held.memory_bytes
        held.memory_bytes = size
        while len(self.sessions) > self.limits.sessions or self.session_bytes > self.limits.session_bytes:
            oldest = next(iter(self.sessions))
            if oldest == key:
                if len(self.sessions) == 1:
                    return
                self.sessions.move_to_end(key)
                continue
            self._drop(oldest)
            self.counters["evicted"] += 1

    def _drop(self, key: SessionKey) -> None:
        held = self.sessions.pop(key, None)
        if held is not None:
            self.session_bytes -= held.memory_bytes

    def _check_text_size(self, request: Request, size: int) -> None:
        if size > self.limits.text_bytes:
            raise WireError(
                TOO_LARGE,
                f"the session's text would have {size} bytes; the limit is {self.limits.text_bytes}",
                request.request_id,
            )

    def validate(self) -> None:
        """Check the invariants that the comments state. For tests."""
        assert self.session_bytes == sum(held.memory_bytes for held in self.sessions.values())
        assert len(self.sessions) <= max(1, self.limits.sessions)
        for held in self.sessions.values():
            assert len(held.replies) <= self.limits.replies
            assert held.reply_bytes == sum(len(frame) for reply in held.replies.values() for frame in reply)
            assert len(held.engine.text().encode()) <= held.text_bytes <= self.limits.text_bytes


def _encode(tokenizer: engine.Tokenizer, text: Buffer, flags: int) -> engine.Ids:
    return tokenizer.encode(
        text,
        add_special_tokens=bool(flags & ADD_SPECIAL_TOKENS),
        split_special_tokens=bool(flags & SPLIT_SPECIAL_TOKENS),
    )


def _packed(numbers: engine.Ids | engine.Positions) -> bytes:
    """Return numbers as little-endian uint32: positions fit, since a text has fewer than 2^32 bytes."""
    return numbers.astype("<u4", copy=False).tobytes()


def _numbers(body: Buffer, place: str) -> engine.Ids:
    if len(body) % 4:
        raise WireError(BAD_REQUEST, f"{place}: {len(body)} bytes are no sequence of uint32")
    return np.frombuffer(body, dtype="<u4")
