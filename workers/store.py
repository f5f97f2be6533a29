"""A repair worker's sessions and what bounds them. Pure.

Each is an engine session with the revision and running digest that a continuation has to build on, and its last replies
by request id. Sessions are bounded by number and by bytes: the least recently used goes. Limits: what a session is
asked, and what becomes of its answer, are core.py's matter.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from tokseam.broker import protocol
from tokseam.broker.protocol import Buffer, SessionKey
from tokseam.kernels import engine

from .sampling import HISTORY_STEPS, Step


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
    #: Bytes of text that a leaving worker hands over, most recently used sessions first: its heirs encode them anew, a
    #: third of a second in all.
    handover_bytes: int = 32 * 1024 * 1024
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
    #: What the engine's memory and the replies came to when last measured; Store.bytes is their sum.
    memory_bytes: int = 0
    #: Bytes of `replies`.
    reply_bytes: int = 0
    #: Packed replies by request id, oldest first.
    replies: OrderedDict[bytes, list[Buffer]] = field(default_factory=OrderedDict)
    #: Requests whose seeds were taken, oldest first: as many as replies are kept.
    seeds: deque[bytes] = field(default_factory=lambda: deque(maxlen=4))
    #: The last steps, oldest first, for a report.
    history: deque[Step] = field(default_factory=lambda: deque(maxlen=HISTORY_STEPS))

    def inherit(self, previous: Held | None) -> None:
        """Go on with the history and the seeds of the session in whose place this one stands."""
        if previous is not None:
            self.history.extend(previous.history)
            self.seeds.extend(previous.seeds)


class Store:
    """Sessions by tenant and id."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        #: Least recently used first.
        self.by_key: OrderedDict[SessionKey, Held] = OrderedDict()
        #: What all of them take.
        self.bytes = 0
        #: How many had to go for want of room, ever.
        self.evicted = 0

    @property
    def is_full(self) -> bool:
        """Whether one more session would drive one out."""
        return len(self.by_key) >= self.limits.sessions

    def hold(self, key: SessionKey, held: Held) -> None:
        """Keep a session, in place of another of this key; it is the one used last."""
        self.drop(key)
        self.by_key[key] = held
        self.measure(key, held)

    def adopt(self, key: SessionKey, held: Held) -> bool:
        """Keep a session if there is room for it, as the one used longest ago. It drives nobody out."""
        self.drop(key)
        if self.is_full or self.bytes + held.engine.memory_bytes > self.limits.session_bytes:
            return False
        self.by_key[key] = held
        self.by_key.move_to_end(key, last=False)
        self.measure(key, held)
        return True

    def measure(self, key: SessionKey, held: Held) -> None:
        """Bring the sum up to date after a change, and evict what is too much, but never `key` itself."""
        size = held.engine.memory_bytes + held.reply_bytes
        self.bytes += size - held.memory_bytes
        held.memory_bytes = size
        while len(self.by_key) > self.limits.sessions or self.bytes > self.limits.session_bytes:
            oldest = next(iter(self.by_key))
            if oldest == key:
                if len(self.by_key) == 1:
                    return
                self.by_key.move_to_end(key)
                continue
            self.drop(oldest)
            self.evicted += 1

    def drop(self, key: SessionKey) -> None:
        """Let a session go, if it is here."""
        held = self.by_key.pop(key, None)
        if held is not None:
            self.bytes -= held.memory_bytes

    def drop_tokenizer(self, sha256: str) -> None:
        """Let all sessions of a tokenizer go."""
        for key in [key for key, held in self.by_key.items() if held.sha256 == sha256]:
            self.drop(key)

    def keep_reply(self, held: Held, request_id: bytes, packed: list[Buffer]) -> None:
        """Keep a reply for the case that its request comes again. What it takes counts once `measure` was called."""
        size = sum(map(len, packed))
        if size > self.limits.reply_bytes:
            return
        held.replies[request_id] = packed
        held.reply_bytes += size
        while len(held.replies) > self.limits.replies:
            _, oldest = held.replies.popitem(last=False)
            held.reply_bytes -= sum(map(len, oldest))

    def validate(self) -> None:
        """Check the invariants that the comments state. For tests."""
        assert self.bytes == sum(held.memory_bytes for held in self.by_key.values())
        assert len(self.by_key) <= max(1, self.limits.sessions)
        for held in self.by_key.values():
            assert len(held.replies) <= self.limits.replies
            assert held.reply_bytes == sum(len(frame) for reply in held.replies.values() for frame in reply)
            assert len(held.engine.text().encode()) <= held.text_bytes <= self.limits.text_bytes
