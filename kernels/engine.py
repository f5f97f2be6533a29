"""The engine: what client, workers and benches import of this package.

`load` turns a tokenizer into a `Tokenizer`: compiled to native tables where every condition of exactness holds, or
answered by the reference, with the reason in words. Both have the same face. No sockets, no processes, no clock.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from . import _native, cache, compiled_file
from .errors import UnsupportedError
from .facts import Facts
from .offsets import Trimmer
from .reference import Ids, LazyReference, Positions, Reference, Text, TiktokenReference, as_str, as_text, bad_text
from .session import Marked, NativeSession, PackedSplice, ReferenceSession, Session, Splice, Work, check_range
from .sources import Made, Opened, Source, open_source

#: Reports of broken proofs that are kept in memory, newest last; each also counts in `mismatches`.
MAX_REPORTS = 64

#: Bytes of large chunks that a tokenizer keeps to recognise, where nothing else is said.
CHUNK_CACHE_BYTES: int = _native.CHUNK_CACHE_BYTES

#: Bytes between the cuts at which a text is parted where a question must go to the reference for some of it: long
#: enough that the calls do not weigh, short enough that one odd character does not send the whole text there.
REFERENCE_CHUNK_BYTES = 4096


class MismatchReport(NamedTuple):
    """A proof that did not hold: what was found, and which text (by its hash; texts are not kept)."""

    tokenizer_sha256: str
    text_sha256: str
    text_chars: int
    what: str


class Native(Protocol):
    """The native side of a tokenizer: just compiled, or read back from its compiled file."""

    @property
    def encoder(self) -> _native.Encoder: ...
    @property
    def facts(self) -> Facts: ...


class Tokenizer:
    """A frozen tokenizer, native or by the reference. Any number of threads may use it.

    status: 'native' or 'reference'; reason: why, in words ('' for native). sha256 names its content. compiled_file:
    where its compiled file lies, None where the cache folder can't be written.
    """

    def __init__(
        self, reference: Reference, compiled: Native | None, reason: str, compiled_file: Path | None = None
    ) -> None:
        self.sha256 = reference.sha256
        self.status: Literal["native", "reference"] = "native" if compiled else "reference"
        self.reason = reason
        self.compiled_file = compiled_file
        #: How often a proof did not hold and the reference took over.
        self.mismatches = 0
        self.reports: deque[MismatchReport] = deque(maxlen=MAX_REPORTS)
        self._reference = reference
        self._encoder = compiled.encoder if compiled else None
        self._facts = compiled.facts if compiled else Facts([], [], False, None)
        self._around: tuple[Ids, Ids] = (
            np.array(self._facts.prefix, dtype=np.uint32),
            np.array(self._facts.suffix, dtype=np.uint32),
        )
        self._trimmed = Trimmer(self._facts.trim)

    def encode(
        self,
        text: Text,
        *,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
        continued: bool = False,
        threads: int = 1,
    ) -> Ids:
        """Encode `text` in full: uint32 ids, equal to the reference's. Raises BadTextError.

        split_special_tokens: literals of special tokens in the text are ordinary text. continued: the text goes on from
        a cut (see `cuts`), so what the tokenizer puts in front of a text is left out; native tokenizers only.
        threads: the most that one native encode may use; a long text is parted at cuts.
        """
        text = as_str(text)
        if self._encoder is None:
            text = as_text(text)
            if continued:
                raise UnsupportedError("the reference can't go on from a cut")
            return self._reference.encode(text, add_special_tokens, split_special_tokens)
        try:
            ids = self._encoder.encode(text, split_special_tokens, continued, threads)
        except UnicodeEncodeError as error:
            raise bad_text(text, error) from None
        return self.surrounded(ids) if add_special_tokens else ids

    def bound_chunk_cache(self, most_bytes: int) -> None:
        """Keep at most so many bytes of large chunks of text with their ids, to recognise them; 0: none.

        CHUNK_CACHE_BYTES where nothing is said. A chunk is kept when it comes for the second time, and compared byte by
        byte when it seems to come again; the longest unused goes first. The reference's path keeps none.
        """
        if self._encoder is not None:
            self._encoder.bound_chunk_cache(most_bytes)

    @property
    def chunk_cache_bytes(self) -> int:
        """Bytes that the chunks take that are kept now."""
        return self._encoder.chunk_cache_bytes if self._encoder is not None else 0

    def encode_marked(
        self, text: Text, *, add_special_tokens: bool = False, split_special_tokens: bool = False, threads: int = 1
    ) -> Marked:
        """Encode `text` in full, with what `seeded_session` needs. Native tokenizers only. Raises BadTextError."""
        if self._encoder is None:
            raise UnsupportedError("the reference marks nothing")
        text = as_str(text)
        try:
            ids, cuts, marks = _native.encode_for_seed(self._encoder, text, split_special_tokens, threads)
        except UnicodeEncodeError as error:
            raise bad_text(text, error) from None
        return Marked(self.surrounded(ids) if add_special_tokens else ids, cuts, marks)

    def surrounded(self, ids: Ids) -> Ids:
        """Return `ids`, a text's own, with what the template puts around them. Native tokenizers only."""
        return np.concatenate([self._around[0], ids, self._around[1]]) if any(map(len, self._around)) else ids

    def device_batch(self) -> _native.DeviceBatch | None:
        """Return a new maker of batches for a device (cuda/launcher.py); None for a tokenizer that none takes."""
        return None if self._encoder is None else _native.DeviceBatch.of(self._encoder)

    def offsets(self, text: Text) -> Positions:
        """Return the (n, 2) int64 spans of the ids, in code points, as the reference reports them.

        Raises BadTextError.
        """
        text = as_text(text)
        if self._encoder is None:
            return self._reference.offsets(text)
        ids, spans, known = self._encoder.spans(text)
        if not known:
            # Normalization, or a byte that the vocabulary lacks: only the reference knows the spans of such chunks.
            spans = self._by_chunks(text, self._chunk_spans, self._reference.untrimmed_offsets)
        return self._trimmed(text, ids, spans)

    def pieces(self, text: Text) -> Positions:
        """Return where the pieces that hold at least one id start: int64, code points. Raises BadTextError."""
        text = as_text(text)
        if self._encoder is None:
            return self._reference.pieces(text)
        starts, known = self._encoder.pieces(text)
        return starts if known else self._by_chunks(text, self._chunk_pieces, self._reference.pieces)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`, as the reference decodes them. Raises BadIdError."""
        return self._reference.decode(ids, skip_special_tokens)

    def cuts(self, text: Text) -> Positions:
        """Return every synchronizing position of `text` in code points; none where the reference runs.

        At each, encode(text) is encode(left) followed by encode(right, continued=True). Raises BadTextError.
        """
        text = as_text(text)
        return self._encoder.cuts(text) if self._encoder else np.empty(0, dtype=np.int64)

    def session(self, *, add_special_tokens: bool = False, split_special_tokens: bool = False) -> Session:
        """Start an empty session."""
        if self._encoder is None:
            return ReferenceSession(self._reference, add_special_tokens, split_special_tokens)
        return self._native_session(add_special_tokens, split_special_tokens)

    def seeded_session(
        self, text: Text, marked: Marked, *, add_special_tokens: bool = False, split_special_tokens: bool = False
    ) -> Session:
        """Start a session of `text` with what `encode_marked` made of it under the same flags, encoding nothing.

        Native tokenizers only. Raises BadTextError, BadSeedError.
        """
        if self._encoder is None:
            raise UnsupportedError("the reference takes no seed")
        session = self._native_session(add_special_tokens, split_special_tokens)
        session.seed(text, marked)
        return session

    def _native_session(self, add_special_tokens: bool, split_special_tokens: bool) -> NativeSession:
        assert self._encoder is not None
        nothing = np.empty(0, dtype=np.uint32)
        return NativeSession(
            _native.Session(self._encoder, split_special_tokens),
            self._around if add_special_tokens else (nothing, nothing),
            lambda: ReferenceSession(self._reference, add_special_tokens, split_special_tokens),
            self._report,
        )

    def by_reference(self, reason: str) -> Tokenizer:
        """Return the same tokenizer with its native path put aside: every answer is the reference's own."""
        return Tokenizer(self._reference, None, reason, self.compiled_file)

    @property
    def reference_made(self) -> bool:
        """Whether the reference is in memory: a native tokenizer needs it for few questions, and loads without."""
        return not isinstance(self._reference, LazyReference) or self._reference.made

    def _report(self, error: _native.OverlapMismatch, text: str) -> None:
        self.mismatches += 1
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.reports.append(MismatchReport(self.sha256, digest, len(text), str(error)))

    def _by_chunks(self, text: str, ask: Any, ask_whole: Any) -> Positions:
        """Part `text` at synchronizing positions, ask about each chunk, and move the answers to where it stands."""
        assert self._encoder is not None
        if self._facts.space_in_front:
            whole: Positions = ask_whole(text)  # no chunk but the first would be a text of its own
            return whole
        ends = [*self._encoder.cuts(text, REFERENCE_CHUNK_BYTES).tolist(), len(text)]
        start, answers = 0, []
        for end in ends:
            answers.append(ask(text[start:end]) + start)
            start = end
        joined: Positions = np.concatenate(answers)
        return joined

    def _chunk_spans(self, chunk: str) -> Positions:
        assert self._encoder is not None
        _, spans, known = self._encoder.spans(chunk)
        return spans if known else self._reference.untrimmed_offsets(chunk)

    def _chunk_pieces(self, chunk: str) -> Positions:
        assert self._encoder is not None
        starts, known = self._encoder.pieces(chunk)
        return starts if known else self._reference.pieces(chunk)


def load(source: Source) -> Tokenizer:
    """Load a tokenizer: a path (tokenizer.json, tekken.json, a rank description), a `tokenizers.Tokenizer`, or a
    `tiktoken.Encoding`; see sources.py.

    Raises BadTokenizerError when the source can't be read as a tokenizer.
    """
    opened = open_source(source)
    kept = compiled_file.find(opened.content_sha256, opened.folder)
    return _compiled(opened) if kept is None else _kept(opened, kept)


def _compiled(opened: Opened) -> Tokenizer:
    # Here: most loads find a compiled file, and should not wait for the compiler and the reference to be imported.
    from .compile.admission import admit, admit_by_small_reference
    from .compile.refusal import Refusal

    content = opened.json()
    compiled, reason, made = None, "", None
    with cache.recording() as probes:
        if content is not None:
            compiled = admit_by_small_reference(content)
            del content
        if compiled is None:
            made = opened.make()
            try:
                compiled = admit(made.reference, made.described)
            except Refusal as refusal:
                reason = str(refusal)
        origin = _origin(opened, made)
        sha256 = made.reference.sha256 if made else opened.content_sha256
        kept = compiled_file.keep(sha256, compiled, reason, origin, probes)
    # What other processes map too is better than what this one has in memory.
    native = kept.native if kept is not None else compiled
    reference = LazyReference(sha256, lambda: opened.make().reference, made.reference if made else None)
    return Tokenizer(reference, native, reason, kept.path if kept else None)


def _origin(opened: Opened, made: Made | None) -> compiled_file.Origin:
    if made is None:
        return compiled_file.Origin(opened.content_sha256)
    dialect = "rust" if isinstance(made.reference, TiktokenReference) else "onig"
    return compiled_file.Origin(opened.content_sha256, dialect, made.files, opened.folder)


def _kept(opened: Opened, kept: compiled_file.Kept) -> Tokenizer:
    # Without a native path it answers everything.
    made = opened.make().reference if kept.native is None else None
    reference = LazyReference(kept.sha256, lambda: opened.make().reference, made)
    return Tokenizer(reference, kept.native, kept.reason, kept.path)


def load_reference(source: Source) -> tuple[Reference, Any]:
    """Load a tokenizer's reference alone, and what is compiled for the native path: all of `load` but the engine.

    Raises BadTokenizerError.
    """
    made = open_source(source).make()
    return made.reference, made.described


__all__ = [
    "Ids",
    "Marked",
    "MismatchReport",
    "PackedSplice",
    "Positions",
    "Session",
    "Splice",
    "Text",
    "Tokenizer",
    "Work",
    "check_range",
    "load",
    "load_reference",
]
