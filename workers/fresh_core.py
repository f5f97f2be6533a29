"""A fresh worker's answers: requests gather, a batch engine encodes them together, each gets its reply. Pure.

It owns no session. A `full` is answered as its owner would answer it, and with the answer comes what makes it the
owner's session (a seed). What a request is answered by depends on its text alone, so one that is sent again gets the
same reply. Where the batch engine fails, the CPU engine encodes that batch, and all others once it is lost. A tokenizer
that is demoted is answered by the reference, and seeds nothing.

Limits: one thread at a time; no sockets, no clock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from tokseam.broker import protocol
from tokseam.broker.protocol import BAD_REQUEST, OK, TOO_LARGE, Buffer, Reply, Request, WireError
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTextError

from .answering import Answering, Seam, bad_text_of, named, packed_numbers, texts_of
from .batch_engine import BatchEngine, BatchEngineError, Document
from .sampling import Sampler

log = logging.getLogger("tokseam.worker")

#: The revision of a session that a seed begins: its owner goes on from there. Texts are told apart by their digests.
FIRST_REVISION: Final = 1
#: Batches that a batch engine may fail one after the other before it counts as lost.
FAILURES_MAX: Final = 3


class Limits(NamedTuple):
    """What bounds a fresh worker's requests; how large its batches are is the batch engine's matter."""

    #: Bytes of one session's text, as for its owner.
    text_bytes: int = protocol.MESSAGE_MAX_BYTES - protocol.HEADER_MAX_BYTES
    #: Largest request, in bytes over all its frames.
    message_bytes: int = protocol.MESSAGE_MAX_BYTES


class Answered(NamedTuple):
    """A request's reply, and what seeds its session: a seed's header and its last frame, or nothing."""

    job: int
    code: str
    frames: list[Buffer]
    seed: list[Buffer]


@dataclass(slots=True)
class Gathered:
    """A request of the batch to come."""

    job: int
    request: Request
    texts: list[Buffer]
    #: Whether its session is to be seeded, and what was found for each text: both known once the batch runs.
    marked: bool = False
    found: Sequence[engine.Marked | Exception] = ()


_COUNTERS = (
    "requests",
    "encodes",
    "path_fresh",
    "path_reference",
    "chars_encoded",
    "batches",
    "batch_documents",
    "batch_bytes",
    "seeds_made",
    "engine_failures",
    "refused",
    "failed",
)


class FreshCore(Answering):
    """Requests in, batches through an engine, replies out."""

    def __init__(
        self,
        tokenizers: dict[str, engine.Tokenizer],
        batch_engine: BatchEngine,
        cpu: BatchEngine,
        limits: Limits | None = None,
        *,
        sampler: Sampler | None = None,
        seam: Seam | None = None,
    ) -> None:
        super().__init__(tokenizers, _COUNTERS, sampler=sampler, seam=seam)
        self.limits = limits or Limits()
        #: What encodes, until it is lost; then it is `_cpu`, which takes every batch that it can't do.
        self._engine = batch_engine
        self._cpu = cpu
        self._failures = 0
        #: The batch to come, its documents and their bytes.
        self._gathered: list[Gathered] = []
        self._documents = 0
        self.gathered_bytes = 0
        #: Refused before they came into a batch.
        self._refused: list[Answered] = []

    @property
    def engine_name(self) -> str:
        return self._engine.name

    @property
    def full(self) -> bool:
        """Whether the batch to come should take nothing more."""
        return self._documents >= self._engine.batch_documents or self.gathered_bytes >= self._engine.batch_bytes

    def take(self, job: int, frames: Sequence[Buffer]) -> None:
        """Add a request to the batch to come. Never raises."""
        self.counters["requests"] += 1
        request_id: bytes | None = None
        try:
            request = protocol.unpack_request(frames, self.limits.message_bytes)
            request_id = request.request_id
            self._gather(job, request)
        except Exception as error:
            self._refused.append(Answered(job, *self._refusal(error, request_id), []))

    def _gather(self, job: int, request: Request) -> None:
        if not protocol.OPERATIONS[request.op].fresh:
            raise WireError(BAD_REQUEST, f"a fresh worker does not answer '{request.op}'", request.request_id)
        if request.op == "full" and len(request.body[0]) > self.limits.text_bytes:
            raise WireError(
                TOO_LARGE,
                f"the session's text would have {len(request.body[0])} bytes; the limit is {self.limits.text_bytes}",
                request.request_id,
            )
        self._tokenizer(request)  # there is one; which one answers is decided when the batch runs
        texts = list(texts_of(request))
        self._gathered.append(Gathered(job, request, texts))
        self._documents += len(texts)
        self.gathered_bytes += len(request.body[-1])

    def drop(self) -> None:
        """Forget what was gathered: whoever sent it is not there any more."""
        self._gathered, self._refused = [], []
        self._documents = self.gathered_bytes = 0

    def run(self, now: float = 0.0) -> list[Answered]:
        """Encode what was gathered and answer it, and what was refused. Never raises.

        `now`: see WorkerCore.answer.
        """
        self._now = now
        gathered, self._gathered = self._gathered, []
        answered, self._refused = self._refused, []
        if gathered:
            self.counters["batches"] += 1
            self.counters["batch_documents"] += self._documents
            self.counters["batch_bytes"] += self.gathered_bytes
        self._documents = self.gathered_bytes = 0
        groups: dict[str, tuple[engine.Tokenizer, list[Gathered]]] = {}
        for one in gathered:
            tokenizer = self._tokenizer(one.request)
            groups.setdefault(tokenizer.sha256, (tokenizer, []))[1].append(one)
        for tokenizer, group in groups.values():
            self._encode(tokenizer, group)
            answered += [self._answer(one, tokenizer) for one in group]
        return answered

    def _encode(self, tokenizer: engine.Tokenizer, group: list[Gathered]) -> None:
        """Encode the texts of requests that have one tokenizer."""
        documents: list[Document] = []
        for one in group:
            one.marked = one.request.op == "full" and tokenizer.status == "native"
            documents += [Document(text, **named(one.request.flags), marked=one.marked) for text in one.texts]
        found: list[engine.Marked | Exception] = []
        for part in _parted(documents, self._engine):
            by_engine = None
            if self._engine is not self._cpu and tokenizer.status == "native":
                by_engine = self._by_engine(tokenizer, part)
            found += self._cpu.encode(tokenizer, part) if by_engine is None else by_engine
        start = 0
        for one in group:
            one.found = found[start : start + len(one.texts)]
            start += len(one.texts)

    def _by_engine(
        self, tokenizer: engine.Tokenizer, documents: Sequence[Document]
    ) -> Sequence[engine.Marked | Exception] | None:
        """Return what the batch engine makes of documents; None where it fails."""
        try:
            found = self._engine.encode(tokenizer, documents)
            if len(found) != len(documents):
                raise BatchEngineError(f"{len(found)} answers to {len(documents)} texts", lost=True)
        except Exception as error:
            self.counters["engine_failures"] += 1
            self._failures += 1
            lost = self._failures >= FAILURES_MAX or (isinstance(error, BatchEngineError) and error.lost)
            log.error(
                "the batch engine (%s) failed, the CPU encodes %s: %r",
                self._engine.name,
                "from now on" if lost else "this batch",
                error,
            )
            if lost:
                self._engine = self._cpu
            return None
        self._failures = 0
        return found

    def _answer(self, one: Gathered, tokenizer: engine.Tokenizer) -> Answered:
        request = one.request
        self._drafts = []
        try:
            encoded: list[engine.Marked] = []
            for place, found in enumerate(one.found):
                if isinstance(found, BadTextError):
                    raise bad_text_of(request, place, found)
                if isinstance(found, Exception):
                    raise found
                encoded.append(found)
            if request.op == "full":
                reply = self._full(request, tokenizer, encoded[0])
            else:
                self.counters["encodes"] += 1
                reply = self._encoded(request, tokenizer, [marked.ids for marked in encoded])
            if self._seam is not None:
                reply = self._seam(request, reply)
            packed = protocol.pack_reply(reply)
            seed = self._seed(request, tokenizer, encoded[0], reply) if one.marked else []
        except Exception as error:
            return Answered(one.job, *self._refusal(error, request.request_id), [])
        if self._drafts:
            self._sample(self._drafts, packed)
        return Answered(one.job, OK, packed, seed)

    def _full(self, request: Request, tokenizer: engine.Tokenizer, marked: engine.Marked) -> Reply:
        text = request.body[0]
        path = "fresh" if tokenizer.status == "native" else "reference"
        chars = _characters(text)
        self.counters[f"path_{path}"] += 1
        self.counters["chars_encoded"] += chars
        self._draw(request, tokenizer.sha256, request.flags, text)
        return Reply(
            request.request_id,
            revision=FIRST_REVISION,
            digest=protocol.digest_full(tokenizer.sha256, request.flags, text),
            start=0,
            stop=0,
            path=path,
            chars_encoded=chars,
            body=(packed_numbers(marked.ids),),
        )

    def _seed(self, request: Request, tokenizer: engine.Tokenizer, marked: engine.Marked, reply: Reply) -> list[Buffer]:
        """Return a seed's header and last frame; the broker has the text and the ids."""
        seed = Request("seed", request.request_id, request.tenant, None, tokenizer.sha256, request.flags)
        seed.session, seed.revision, seed.digest = request.session, FIRST_REVISION, reply.digest or b""
        self.counters["seeds_made"] += 1
        return [*protocol.pack_request(seed), packed_numbers(np.concatenate([marked.cuts, marked.marks]))]

    def validate(self) -> None:
        """Check the invariants that the comments state. For tests."""
        assert self._documents == sum(len(one.texts) for one in self._gathered)
        assert self.gathered_bytes == sum(len(one.request.body[-1]) for one in self._gathered)


def _parted(documents: Sequence[Document], batch_engine: BatchEngine) -> Iterator[Sequence[Document]]:
    """Yield documents in parts of what an engine takes at most: a batch may hold a request more, or a longer text."""
    most, bytes_most = batch_engine.batch_documents, batch_engine.batch_bytes
    first, size = 0, 0
    for place, document in enumerate(documents):
        if place > first and (place - first >= most or size + len(document.text) > bytes_most):
            yield documents[first:place]
            first, size = place, 0
        size += len(document.text)
    if first < len(documents):
        yield documents[first:]


def _characters(text: Buffer) -> int:
    """Count the code points of UTF-8: the bytes that begin one."""
    return int(np.count_nonzero((np.frombuffer(text, dtype=np.uint8) & 0xC0) != 0x80))
