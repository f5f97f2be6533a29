"""What every core that answers has: tokenizers, their demotions, refusals in the wire's words, samples of answers.

core.py answers with sessions, fresh_core.py whole texts in batches; both are an `Answering`. Pure: no sockets, no
processes, no clock. Limits: how a text is encoded is theirs; what a sample holds and why stands in sampling.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypedDict

import numpy as np
from tokseam.broker import protocol
from tokseam.broker.protocol import (
    ADD_SPECIAL_TOKENS,
    BAD_REQUEST,
    INTERNAL,
    OK,
    SPLIT_SPECIAL_TOKENS,
    STALE,
    TOO_LARGE,
    UNKNOWN_TOKENIZER,
    Buffer,
    Demotion,
    Reply,
    Request,
    WireError,
)
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTextError, EngineError

from .sampling import Sample, Sampler, Step

log = logging.getLogger("tokseam.worker")

#: What stands between engine and wire. Nothing in a tier; tests plant faults there.
Seam = Callable[[Request, Reply], Reply]


class Draft(NamedTuple):
    """A sample without what its reply says."""

    sample: Sample
    #: The session as it was before the step, whose text and ids the sample needs; None where it needs none.
    before: engine.Session | None


class Standing(Protocol):
    """A session that a step changes, as far as a sample of the step needs it."""

    @property
    def engine(self) -> engine.Session: ...
    @property
    def text_bytes(self) -> int: ...
    @property
    def history(self) -> Iterable[Step]: ...


class Answering:
    """Tokenizers by name and content hash, counters, and samples of answers."""

    def __init__(
        self,
        tokenizers: dict[str, engine.Tokenizer],
        counters: Iterable[str],
        *,
        sampler: Sampler | None = None,
        seam: Seam | None = None,
    ) -> None:
        #: As they were admitted, whatever was demoted since.
        self.names = dict(tokenizers)
        self._admitted = {tokenizer.sha256: tokenizer for tokenizer in tokenizers.values()}
        #: By SHA-256 and by name; a name never looks like a hash of another. A demoted one is its reference alone.
        self._tokenizers = self._admitted | self.names
        #: All and only the demoted, by hash; also of tokenizers that are not here.
        self.demoted: dict[str, Demotion] = {}
        #: Samples to hand over; the caller empties them after each answer.
        self.samples: list[Sample] = []
        self.counters: dict[str, int] = dict.fromkeys((*counters, "shadow_faults"), 0)
        self._sampler = sampler
        self._seam = seam
        #: Of the answer under way: the caller's clock, and what was drawn for a sample of it.
        self._now = 0.0
        self._drafts: list[Draft] = []

    def describe(self) -> list[dict[str, str]]:
        """Return name, sha256, status and reason of each tokenizer, as admitted: demotions are told beside."""
        return [
            {"name": name, "sha256": one.sha256, "status": one.status, "reason": one.reason}
            for name, one in self.names.items()
        ]

    def stats(self) -> dict[str, int]:
        drawn = {}
        if self._sampler is not None:
            drawn = {"shadow_drawn": self._sampler.drawn, "shadow_skipped": self._sampler.skipped}
        kept = sum(one.chunk_cache_bytes for one in {id(one): one for one in self.names.values()}.values())
        return {**self.counters, "chunk_cache_bytes": kept, **drawn}

    # -- tokenizers -------------------------------------------------------------------------------------------

    def demote(self, demotion: Demotion) -> bool:
        """Answer a tokenizer by its reference until `restore`. Returns whether that is new."""
        if demotion.sha256 in self.demoted:
            return False
        self.demoted[demotion.sha256] = demotion
        self._put(demotion.sha256, demotion.reason)
        return True

    def restore(self, sha256: str) -> bool:
        """Answer a tokenizer as it was admitted. Returns whether it was demoted."""
        if self.demoted.pop(sha256, None) is None:
            return False
        self._put(sha256, None)
        return True

    def _put(self, sha256: str, demoted: str | None) -> None:
        """Exchange a tokenizer, and forget what its other half answered."""
        for name, admitted in self.names.items():
            if admitted.sha256 == sha256:
                used = admitted if demoted is None else admitted.by_reference(demoted)
                self._tokenizers[name] = self._tokenizers[sha256] = used
        self._forget(sha256)

    def _forget(self, sha256: str) -> None:
        """Drop what is kept of a tokenizer's answers. Here nothing is."""

    def _tokenizer(self, request: Request) -> engine.Tokenizer:
        found = self._tokenizers.get(request.tokenizer)
        if found is None:
            raise WireError(
                UNKNOWN_TOKENIZER,
                f"header key 'tk': no tokenizer {request.tokenizer!r} here; there are {', '.join(self.names)}",
                request.request_id,
            )
        return found

    # -- replies ----------------------------------------------------------------------------------------------

    def _encoded(self, request: Request, tokenizer: engine.Tokenizer, encoded: Sequence[engine.Ids]) -> Reply:
        """Return the reply to 'encode', 'count' or 'batch', whose texts have these ids; perhaps begin samples."""
        for place, text in enumerate(texts_of(request)):
            self._draw(request, tokenizer.sha256, request.flags, text, place=place)
        reply = Reply(request.request_id)
        if request.op == "count":
            reply.count = len(encoded[0])
        elif request.op == "encode":
            reply.body = [packed_numbers(encoded[0])]
        else:
            counts = np.array([len(ids) for ids in encoded], dtype=np.uint32)
            reply.body = [packed_numbers(counts), packed_numbers(np.concatenate(encoded)) if encoded else b""]
        return reply

    def _refusal(self, error: Exception, request_id: bytes | None) -> tuple[str, list[Buffer]]:
        """Return the code and the frames of the reply that an error comes to."""
        if isinstance(error, WireError):
            self.counters["stale" if error.code == STALE else "refused"] += 1
            return error.code, protocol.pack_reply(Reply(error.request_id or request_id, error.code, error.message))
        if isinstance(error, EngineError):
            self.counters["refused"] += 1
            message = f"body: {error}" if isinstance(error, BadTextError) else str(error)
            return BAD_REQUEST, protocol.pack_reply(Reply(request_id, BAD_REQUEST, message))
        if isinstance(error, MemoryError):
            self.counters["refused"] += 1
            return TOO_LARGE, protocol.pack_reply(Reply(request_id, TOO_LARGE, "no memory for this text"))
        self.counters["failed"] += 1
        log.error("a request failed", exc_info=error)
        return INTERNAL, protocol.pack_reply(Reply(request_id, INTERNAL, f"the worker failed: {error!r}"))

    def settle(self) -> None:
        """Keep the books that are owed. Here none are."""

    # -- checking again ---------------------------------------------------------------------------------------

    def _draw(
        self,
        request: Request,
        sha256: str,
        flags: int,
        payload: Buffer,
        standing: Standing | None = None,
        place: int = 0,
    ) -> None:
        """Perhaps begin a sample of the answer under way. `standing`: the session whose text and ids it changes.

        Comes before the change, and keeps what stands before it as a fork, which costs no copy while the reply waits.
        """
        sampler = self._sampler
        if sampler is None or not sampler.draw(len(payload) + (standing.text_bytes if standing else 0), self._now):
            return
        try:
            sample = Sample(sha256, flags, request.op, b"", request.start, request.stop, payload, b"", place=place)
            if standing is None:
                self._drafts.append(Draft(sample, None))
            else:
                self.settle()  # the history is one of the books
                sample.history = [*standing.history]
                self._drafts.append(Draft(sample, standing.engine.fork()))
        except Exception:  # no memory, most likely: the answer matters more
            self.counters["shadow_faults"] += 1

    def _sample(self, drafts: list[Draft], packed: list[Buffer]) -> None:
        """Complete what was begun with what went out: read back from the very frames."""
        try:
            reply = protocol.unpack_reply(packed)
            if reply.code == OK:
                self.samples += [_completed(draft, reply) for draft in drafts]
        except Exception:
            self.counters["shadow_faults"] += 1
            log.exception("an answer could not be sampled")


def _completed(draft: Draft, reply: Reply) -> Sample:
    """Put into a sample what stood before the step, and what its reply says."""
    sample = draft.sample
    if draft.before is not None:
        text = draft.before.text()
        sample.text, sample.ids = text.encode(), packed_numbers(draft.before.ids())
        if sample.op == "append":
            sample.start = sample.stop = len(text)
    if sample.op == "count":
        sample.count = reply.count
    elif sample.op == "batch":
        ends = np.cumsum(numbers(reply.body[0], "reply"), dtype=np.uint64) * 4
        start = int(ends[sample.place - 1]) if sample.place else 0
        sample.patch = memoryview(reply.body[1])[start : int(ends[sample.place])]
    else:
        sample.patch = reply.body[0]
    sample.path = reply.path or ""
    sample.revision = reply.revision or 0
    if sample.op in ("append", "edit"):  # a full answer replaces all ids, whatever its range says
        sample.ids_start, sample.ids_stop = reply.start or 0, reply.stop or 0
    return sample


class Named(TypedDict):
    """The engine's names for what a request's flags say of an encode."""

    add_special_tokens: bool
    split_special_tokens: bool


def named(flags: int) -> Named:
    return {
        "add_special_tokens": bool(flags & ADD_SPECIAL_TOKENS),
        "split_special_tokens": bool(flags & SPLIT_SPECIAL_TOKENS),
    }


def texts_of(request: Request) -> Iterator[Buffer]:
    """Yield the texts that a request wants encoded. Raises WireError where a batch's lengths are not its text's."""
    if request.op != "batch":
        yield request.body[0]
        return
    lengths = numbers(request.body[0], "body frame 1")
    texts = memoryview(request.body[1])
    ends = np.cumsum(lengths, dtype=np.uint64)
    whole = int(ends[-1]) if len(ends) else 0
    if whole != len(texts):
        raise WireError(
            BAD_REQUEST,
            f"body frame 1: the lengths come to {whole} bytes, frame 2 has {len(texts)}",
            request.request_id,
        )
    start = 0
    for end in ends.tolist():
        yield bytes(texts[start:end])
        start = end


def bad_text_of(request: Request, place: int, error: BadTextError) -> WireError:
    """Return the error of a request whose text at `place` is none."""
    where = f"body: text {place}" if request.op == "batch" else "body"
    return WireError(BAD_REQUEST, f"{where}: {error}", request.request_id)


def packed_numbers(values: engine.Ids | engine.Positions) -> bytes:
    """Return numbers as little-endian uint32: positions fit, since a text has fewer than 2^32 bytes."""
    return values.astype("<u4", copy=False).tobytes()


def numbers(body: Buffer, place: str) -> engine.Ids:
    """Read little-endian uint32. Raises WireError naming the place."""
    if len(body) % 4:
        raise WireError(BAD_REQUEST, f"{place}: {len(body)} bytes are no sequence of uint32")
    return np.frombuffer(body, dtype="<u4")
