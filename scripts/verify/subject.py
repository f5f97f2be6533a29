"""The tokenizer under verification: the engine's object, its compiled tables, and a fresh reference.

Limits: what is tried on it is the business of rounds.py and checks.py.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tokseam.kernels import engine
from tokseam.kernels.compile.admission import admit
from tokseam.kernels.compile.refusal import Refusal
from tokseam.kernels.compile.tables import Compiled
from tokseam.kernels.errors import BadTokenizerError
from tokseam.kernels.reference import HuggingFaceReference, Ids, Positions, Reference, TiktokenReference

from .oracle import HuggingFaceOracle, Oracle, TiktokenOracle


class CountingReference:
    """The engine's own reference, which counts what the engine could not answer by itself.

    A boundary or span that the engine took from its reference proves nothing, so it is not counted as checked.
    """

    def __init__(self, inner: Reference) -> None:
        self.sha256 = inner.sha256
        self._inner = inner
        #: Piece starts and spans that were the reference's since take() was last called.
        self._borrowed = 0

    def take(self) -> int:
        borrowed, self._borrowed = self._borrowed, 0
        return borrowed

    def encode(self, text: str, add_special_tokens: bool, split_special_tokens: bool) -> Ids:
        return self._inner.encode(text, add_special_tokens, split_special_tokens)

    def offsets(self, text: str) -> Positions:
        found = self._inner.offsets(text)
        self._borrowed += len(found)
        return found

    def untrimmed_offsets(self, text: str) -> Positions:
        found = self._inner.untrimmed_offsets(text)
        self._borrowed += len(found)
        return found

    def pieces(self, text: str) -> Positions:
        found = self._inner.pieces(text)
        self._borrowed += len(found)
        return found

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        return self._inner.decode(ids, skip_special_tokens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # whatever else a reference may offer


@dataclass
class Subject:
    """What a campaign needs to know of one tokenizer."""

    name: str
    tokenizer: engine.Tokenizer
    compiled: Compiled | None
    oracle: Oracle
    own: CountingReference
    #: Contents of the added tokens, as the fresh reference has them.
    literals: list[str] = field(default_factory=list)

    @property
    def cuts_are_boundaries(self) -> bool:
        """Is every cut the start of a piece? Over characters, a cut is a place that no merge spans, inside a piece."""
        return self.compiled is not None and self.compiled.classes is not None

    @property
    def native(self) -> bool:
        return self.tokenizer.status == "native"


def load_subject(specification: str) -> Subject:
    """Load PATH or tiktoken:NAME. Raises BadTokenizerError."""
    if specification.startswith("tiktoken:"):
        return from_encoding(specification, _encoding(specification.removeprefix("tiktoken:")))
    reference, source = engine.load_reference(specification)
    oracle: Oracle = HuggingFaceOracle(source.decode()) if isinstance(source, bytes) else TiktokenOracle(source)
    return assemble(os.path.basename(specification), reference, source, oracle)


def _encoding(name: str) -> Any:
    try:
        import tiktoken

        return tiktoken.get_encoding(name)
    except ImportError:
        raise BadTokenizerError("tiktoken is not installed") from None
    except Exception as error:  # an unknown name, or whatever its loader meets; mostly, that there is no network
        raise BadTokenizerError(f"tiktoken can't give {name!r}: {type(error).__name__}: {error}") from None


def from_json(name: str, content: bytes) -> Subject:
    """Take the content of a tokenizer.json. Raises BadTokenizerError."""
    reference = HuggingFaceReference.from_json(content)
    return assemble(name, reference, content, HuggingFaceOracle(content.decode()))


def from_encoding(name: str, encoding: Any) -> Subject:
    """Take a `tiktoken.Encoding`."""
    return assemble(name, TiktokenReference(encoding), encoding, TiktokenOracle(encoding))


def assemble(name: str, reference: Reference, source: Any, oracle: Oracle) -> Subject:
    """Compile as `engine.load` does, but keep the compiled tables and count what the engine asks of its reference."""
    own = CountingReference(reference)
    compiled: Compiled | None = None
    reason = ""
    try:
        compiled = admit(reference, source)
    except Refusal as refusal:
        reason = str(refusal)
    tokenizer = engine.Tokenizer(own, compiled, reason)
    return Subject(name, tokenizer, compiled, oracle, own, [text for text in oracle.literals.values() if text])
