"""A repair worker's state and answers: requests in, replies out. Pure: no sockets, no processes, no clock.

It owns sessions (store.py). A continuation has to build on a session's revision and digest, or is 'stale'; a request
sent again is answered with the reply that was kept, and not applied again. A session that had to go for want of room,
its client finds stale.

It also draws answers for the shadow verifier and puts samples of them into `samples` (sampling.py says what and why),
and a tokenizer that is demoted is answered by the reference from then on: its sessions are dropped, so that their
clients send the full text, which heals whatever ids they hold.

Limits: one thread at a time. Whether a message may come here at all is the broker's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokseam.broker import protocol
from tokseam.broker.protocol import (
    BAD_REQUEST,
    OK,
    SKIP_SPECIAL_TOKENS,
    STALE,
    TOO_LARGE,
    Buffer,
    Reply,
    Request,
    WireError,
)
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTextError

from .answering import Answering, Draft, Seam, bad_text_of, named, numbers, packed_numbers, texts_of
from .sampling import Sampler, Step
from .store import Held, Limits, Store

log = logging.getLogger("tokseam.worker")


class Alarm(NamedTuple):
    """A native session caught itself: a repair's overlap differed, and the reference answered instead."""

    report: engine.MismatchReport
    op: str
    revision: int
    history: tuple[Step, ...]


class Unsettled(NamedTuple):
    """An answer whose books are not kept yet."""

    request: Request
    held: Held | None
    reply: Reply
    packed: list[Buffer]
    drafts: list[Draft]


_COUNTERS = (
    "requests",
    "encodes",
    "path_append",
    "path_edit",
    "path_fresh",
    "path_reference",
    "chars_encoded",
    "forks",
    "adopted",
    "seeds",
    "seeds_refused",
    "stale",
    "resent",
    "refused",
    "failed",
)


#: Answers whose books may wait at a time: enough for a caller's burst of steps, few enough that to keep all of them
#: takes less than one step.
OWED_MAX = 16
#: Bytes of a change and of its ids up to which its books may wait: beside the sessions at most half a megabyte is owed.
OWED_BYTES = 32 * 1024
#: Changes, and the paths in time of the change.
_REPAIRS = frozenset({"append", "edit"})
_PATH_COUNTERS = {path: f"path_{path}" for path in ("append", "edit", "fresh", "reference")}


class WorkerCore(Answering):
    """Sessions by tenant and id, and an answer for every request."""

    def __init__(
        self,
        tokenizers: dict[str, engine.Tokenizer],
        limits: Limits | None = None,
        *,
        sampler: Sampler | None = None,
        seam: Seam | None = None,
    ) -> None:
        super().__init__(tokenizers, _COUNTERS, sampler=sampler, seam=seam)
        self.limits = limits or Limits()
        self.store = Store(self.limits)
        #: The store's, by tenant and id.
        self.sessions = self.store.by_key
        #: Mismatches of each native tokenizer that were dealt with, by hash.
        self._mismatches_seen = {sha256: tokenizer.mismatches for sha256, tokenizer in self._admitted.items()}
        #: What the caller has to report; it empties them.
        self.alarms: list[Alarm] = []
        #: What `settle` is owed, oldest first, by request id; at most OWED_MAX answers, and of what can't wait one.
        self._owed: dict[bytes, Unsettled] = {}
        #: Whether all that is owed may wait until the caller has nothing to do: books of small changes that were
        #: repaired, and no sample.
        self.can_wait = True
        #: Bytes of text that the last answer encoded; 0 where it was no encode.
        self.encoded_bytes = 0

    def stats(self) -> dict[str, int]:
        mismatches = sum(tokenizer.mismatches for tokenizer in self._admitted.values())
        store = self.store
        held = {"sessions": len(self.sessions), "session_bytes": store.bytes, "evicted": store.evicted}
        return {**super().stats(), "mismatches": mismatches, **held}

    def handle(self, frames: Sequence[Buffer], now: float = 0.0) -> tuple[str, list[Buffer]]:
        """Answer one request and do all that follows: `answer`, then `settle`. Never raises."""
        answered = self.answer(frames, now)
        self.settle()
        return answered

    def answer(self, frames: Sequence[Buffer], now: float = 0.0) -> tuple[str, list[Buffer]]:
        """Answer one request: its reply's code, and the reply's frames. Never raises.

        `now` is any clock in seconds that does not go back; it paces the samples' byte budget. What the reply need not
        wait for is left to `settle`, which the caller owes once the reply is out: at once, or where it `can_wait`, when
        there is nothing to do.
        """
        if not self.can_wait or len(self._owed) >= OWED_MAX:
            self.settle()
        self.counters["requests"] += 1
        self._now = now
        self.encoded_bytes = 0
        request_id: bytes | None = None
        try:
            request = protocol.unpack_request(frames, self.limits.message_bytes)
            request_id = request.request_id
            change = request.op in _REPAIRS
            if self._owed and (not change or request_id in self._owed):
                self.settle()  # all but a change may look at the books, and one that comes again does
            stored = self._stored(request)
            if stored is not None:
                self.counters["resent"] += 1
                return OK, stored
            reply, held = self._change(request) if change else self._answer(request)
            if change or protocol.OPERATIONS[request.op].fresh:
                self.encoded_bytes = len(request.body[-1])
            if self._seam is not None:
                reply = self._seam(request, reply)
            packed = protocol.pack_reply(reply)
            drafts = self._drafts
            if drafts:
                self._drafts = []
            self._owed[request_id] = Unsettled(request, held, reply, packed, drafts)
            self.can_wait = reply.path in _REPAIRS and not drafts and len(packed[-1]) + self.encoded_bytes <= OWED_BYTES
            return reply.code, packed
        except Exception as error:
            self._drafts = []
            return self._refusal(error, request_id)

    def settle(self) -> None:
        """Keep the books of what was answered: replies for resends, memory, history, alarm, samples. Never raises."""
        if not self._owed:
            return
        owed, self._owed = self._owed, {}
        self.can_wait = True
        for request, held, reply, packed, drafts in owed.values():
            try:
                if held is not None:
                    self._keep_books(request, held, reply, packed)
            except Exception:
                self.counters["failed"] += 1
                log.exception("the books of an answer could not be kept")
            if drafts:
                self._sample(drafts, packed)

    def _keep_books(self, request: Request, held: Held, reply: Reply, packed: list[Buffer]) -> None:
        self.store.keep_reply(held, request.request_id, packed)
        self._record(request, held, reply)
        key = request.new_key if request.op == "fork" else request.key
        if self.sessions.get(key) is held:  # the books of an older answer may have driven it out
            self.store.measure(key, held)
        # Whoever caught itself answered by the reference, and such an answer's books wait for no other's.
        if reply.path == "reference" and self._admitted[held.sha256].mismatches != self._mismatches_seen[held.sha256]:
            self._alarm(request, held)

    # -- operations -------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> tuple[Reply, Held | None]:
        """Carry out what is no change. Returns its reply, and the session that has to remember it."""
        op = request.op
        if op == "full":
            return self._full(request)
        if op == "fork":
            return self._fork(request)
        if op == "adopt":
            return self._adopt(request), None
        if op == "seed":
            return self._seed(request), None
        if op == "close":
            self.store.drop(request.key)
            return Reply(request.request_id), None
        return self._stateless(request, self._tokenizer(request)), None

    def _stateless(self, request: Request, tokenizer: engine.Tokenizer) -> Reply:
        body = request.body[0]
        if request.op == "decode":
            decoded = tokenizer.decode(numbers(body, "body").tolist(), bool(request.flags & SKIP_SPECIAL_TOKENS))
            return Reply(request.request_id, body=[decoded.encode()])
        self.counters["encodes"] += 1
        if request.op == "offsets":
            return Reply(request.request_id, body=[packed_numbers(tokenizer.offsets(body))])
        if request.op == "pieces":
            return Reply(request.request_id, body=[packed_numbers(tokenizer.pieces(body))])
        encoded = []
        for number, text in enumerate(texts_of(request)):
            try:
                encoded.append(tokenizer.encode(text, **named(request.flags)))
            except BadTextError as error:
                raise bad_text_of(request, number, error) from None
        return self._encoded(request, tokenizer, encoded)

    def _full(self, request: Request) -> tuple[Reply, Held]:
        tokenizer = self._tokenizer(request)
        text = request.body[0]
        self._check_text_size(request, len(text))
        previous = self.sessions.get(request.key)
        digest = protocol.digest_full(tokenizer.sha256, request.flags, text)
        if previous is not None and previous.digest == digest:
            # Sent again after its reply was lost: the state stays, or a continuation under way would find it stale.
            self._draw(request, tokenizer.sha256, request.flags, text)
            return _patched(
                request, previous, (0, 0, packed_numbers(previous.engine.ids()), *previous.engine.work)
            ), previous
        session = _session(tokenizer, request.flags)
        session.reset(text)
        held = Held(
            session,
            tokenizer.sha256,
            request.flags,
            1 if previous is None else previous.revision + 1,
            digest,
            len(text),
        )
        held.inherit(previous)
        self.store.hold(request.key, held)
        self._draw(request, tokenizer.sha256, request.flags, text)
        return _patched(request, held, (0, 0, packed_numbers(session.ids()), *session.work)), held

    def _change(self, request: Request) -> tuple[Reply, Held]:
        held = self._at_base(request)
        payload = request.body[0]
        if held.text_bytes + len(payload) > self.limits.text_bytes:
            held.text_bytes = len(held.engine.text().encode())
            self._check_text_size(request, held.text_bytes + len(payload))
        if self._sampler is not None:
            self._draw(request, held.sha256, held.flags, payload, held)
        given = bytes(payload)  # bytes that are bytes are not copied
        if request.op == "append":
            splice = held.engine.append_packed(given)
        else:
            splice = held.engine.edit_packed(request.start, request.stop, given)
        held.text_bytes += len(payload)
        held.revision += 1
        held.digest = protocol.digest_change(held.digest, request.op, request.start, request.stop, payload)
        return _patched(request, held, splice), held

    def _fork(self, request: Request) -> tuple[Reply, Held]:
        held = self._at_base(request)
        twin = Held(held.engine.fork(), held.sha256, held.flags, held.revision, held.digest, held.text_bytes)
        twin.history.extend(held.history)
        self.counters["forks"] += 1
        self.store.hold(request.new_key, twin)
        return Reply(request.request_id, revision=twin.revision, digest=twin.digest), twin

    def _adopt(self, request: Request) -> Reply:
        """Take a session over from a worker that leaves, at its revision, if there is room: it drives nobody out.

        What is here under its id is older: the broker sends none whose client was here since.
        """
        reply = Reply(request.request_id)
        tokenizer = self._tokenizer(request)
        text = request.body[0]
        self._check_text_size(request, len(text))
        self.store.drop(request.key)
        if self.store.is_full:
            return reply
        session = _session(tokenizer, request.flags)
        session.reset(text)
        held = Held(session, tokenizer.sha256, request.flags, request.revision, request.digest, len(text))
        if self.store.adopt(request.key, held):
            self.counters["adopted"] += 1
        return reply

    def _seed(self, request: Request) -> Reply:
        """Take a session over from a fresh worker's answer, as if the text had been encoded here.

        A seed that comes twice is taken once: the session may have gone on since. Whatever speaks against a seed only
        costs its client a full text.
        """
        reply = Reply(request.request_id)
        previous = self.sessions.get(request.key)
        if previous is not None and request.request_id in previous.seeds:
            self.counters["resent"] += 1
            return reply
        try:
            held = self._seeded(request, previous)
        except Exception:
            self.counters["seeds_refused"] += 1
            raise
        self.counters["seeds"] += 1
        held.seeds.append(request.request_id)
        return reply

    def _seeded(self, request: Request, previous: Held | None) -> Held:
        tokenizer = self._tokenizer(request)
        text, ids, places = request.body
        self._check_text_size(request, len(text))
        if protocol.digest_full(tokenizer.sha256, request.flags, text) != request.digest:
            raise WireError(BAD_REQUEST, "the seed is of another text than its digest", request.request_id)
        if previous is not None and previous.digest == request.digest:
            previous.revision = request.revision  # the client knows it by this one now
            return previous
        both = numbers(places, "body frame 3")
        marked = engine.Marked(numbers(ids, "body frame 2"), both[: len(both) // 2], both[len(both) // 2 :])
        # A tokenizer that was demoted since takes no seed: those ids may be the wrong ones.
        session = tokenizer.seeded_session(text, marked, **named(request.flags))
        held = Held(session, tokenizer.sha256, request.flags, request.revision, request.digest, len(text))
        held.inherit(previous)
        self.store.hold(request.key, held)
        return held

    def parting(self) -> Iterator[list[Buffer]]:
        """Yield an 'adopt' request for each session worth it, most recently used first, up to `handover_bytes`.

        Those that the reference answers are left out: to encode them again would keep an heir for long.
        """
        left = self.limits.handover_bytes
        for (tenant, name), held in reversed(self.sessions.items()):
            if held.text_bytes > left or self._tokenizers[held.sha256].status != "native":
                continue
            text = held.engine.text().encode()
            left -= len(text)
            # Any id serves, since nobody waits for the reply; a digest has an id's length.
            request = Request("adopt", held.digest, tenant, None, held.sha256, held.flags, name, body=[text])
            request.revision, request.digest = held.revision, held.digest
            yield protocol.pack_request(request)

    def _record(self, request: Request, held: Held, reply: Reply) -> None:
        """Enter a step that was answered into the counters and the session's history."""
        if reply.start is None or reply.stop is None or reply.path is None:
            return  # a fork changes nothing
        counters = self.counters
        counters[_PATH_COUNTERS[reply.path]] += 1
        counters["chars_encoded"] += reply.chars_encoded or 0
        size, new = len(request.body[0]), len(reply.body[0]) // 4
        step = (reply.revision or 0, request.op, request.start, request.stop, size, reply.start, reply.stop, new)
        held.history.append(Step._make(step))

    def _forget(self, sha256: str) -> None:
        """Drop a tokenizer's sessions: each client finds its own stale, and sends the full text."""
        self.settle()  # the books of one that is dropped can't be kept
        self.store.drop_tokenizer(sha256)

    def _alarm(self, request: Request, held: Held) -> None:
        """Raise an alarm: the engine caught itself since the last look."""
        native = self._admitted[held.sha256]
        self._mismatches_seen[held.sha256] = native.mismatches
        self.alarms.append(Alarm(native.reports[-1], request.op, held.revision, tuple(held.history)))

    # -- sessions ---------------------------------------------------------------------------------------------

    def _at_base(self, request: Request) -> Held:
        """Return the session if it stands where the request builds on. Raises WireError('stale') if it does not."""
        key = request.key
        held = self.sessions.get(key)
        sha256 = request.tokenizer
        if held is None or held.sha256 != sha256:
            sha256 = self._tokenizer(request).sha256
        if held is None:
            raise WireError(STALE, "the session is not here; send the full text", request.request_id)
        if held.revision != request.revision or held.digest != request.digest or held.sha256 != sha256:
            raise WireError(
                STALE,
                f"the session is at revision {held.revision} of another text; send the full text",
                request.request_id,
            )
        self.sessions.move_to_end(key)
        return held

    def _stored(self, request: Request) -> list[Buffer] | None:
        """Return the reply that this very request got before, if it is one of a session and still kept."""
        if not request.session:
            return None
        held = self.sessions.get(request.new_key if request.op == "fork" else request.key)
        return None if held is None else held.replies.get(request.request_id)

    def _check_text_size(self, request: Request, size: int) -> None:
        if size > self.limits.text_bytes:
            raise WireError(
                TOO_LARGE,
                f"the session's text would have {size} bytes; the limit is {self.limits.text_bytes}",
                request.request_id,
            )

    def validate(self) -> None:
        """Check the invariants that the comments state. For tests."""
        self.store.validate()
        for name, admitted in self.names.items():
            status = "reference" if admitted.sha256 in self.demoted else admitted.status
            assert self._tokenizers[name].status == self._tokenizers[admitted.sha256].status == status


def _session(tokenizer: engine.Tokenizer, flags: int) -> engine.Session:
    return tokenizer.session(**named(flags))


def _patched(request: Request, held: Held, splice: engine.PackedSplice) -> Reply:
    start, stop, ids, path, chars = splice
    return Reply(request.request_id, OK, "", None, held.revision, held.digest, start, stop, path, chars, body=(ids,))
