"""The reference tokenizers, whose answers are the contract, behind one small interface.

Hugging Face `tokenizers` for a tokenizer.json, `tiktoken` for its encodings. Nothing here is fast, and nothing here
may be clever: every answer is the reference's own.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from . import forks
from .errors import BadIdError, BadTextError, BadTokenizerError, UnsupportedError

# Imported where one is made: most native tokenizers never ask their reference.
if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as HfTokenizer

Text = str | bytes | bytearray | memoryview  # a str, or UTF-8 bytes
Ids = npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]


class Reference(Protocol):
    """What the engine needs of a reference. Texts are str without lone surrogates; positions are code points."""

    sha256: str

    def encode(self, text: str, add_special_tokens: bool, split_special_tokens: bool) -> Ids: ...
    def offsets(self, text: str) -> Positions: ...
    def untrimmed_offsets(self, text: str) -> Positions: ...
    def pieces(self, text: str) -> Positions: ...
    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str: ...


def as_text(text: Text) -> str:
    """Return `text` as a str that has a UTF-8 form.

    Raises BadTextError with the position of the first lone surrogate (a str) or malformed byte (UTF-8 bytes).

    >>> as_text(b"caf\\xc3\\xa9")
    'café'
    """
    if isinstance(text, str):
        if text.isascii():
            return text  # no surrogate in it, and no copy to find that out
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise bad_text(text, error) from None
        return text
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError as error:
        raise BadTextError(
            f"byte {error.start} is 0x{error.object[error.start]:02X}, not UTF-8: {error.reason}", error.start, "byte"
        ) from None


def as_str(text: Text) -> str:
    """As as_text, but a lone surrogate in a str is left for whoever encodes it to find: see bad_text."""
    return text if isinstance(text, str) else as_text(text)


def bad_text(text: str, error: UnicodeEncodeError) -> BadTextError:
    """Return what as_text raises where a str has no UTF-8 form."""
    return BadTextError(
        f"character {error.start} is U+{ord(text[error.start]):04X}, a lone surrogate, which no UTF-8 text holds",
        error.start,
        "character",
    )


def read_tokenizer(content: bytes) -> HfTokenizer:
    """Build a `tokenizers.Tokenizer` from a tokenizer.json. Raises BadTokenizerError with the reference's own words."""
    from tokenizers import Tokenizer as HfTokenizer

    try:
        return HfTokenizer.from_str(content.decode())
    except BaseException as error:  # the reference panics (a BaseException) on some files
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
            raise
        raise BadTokenizerError(f"the reference can't read this tokenizer.json: {error}") from None


class HuggingFaceReference:
    """A `tokenizers.Tokenizer`, frozen: named by the SHA-256 of the content it was made from."""

    def __init__(self, tokenizer: HfTokenizer, sha256: str) -> None:
        self.sha256 = sha256
        self._tokenizer = tokenizer
        #: Guards `encode_special_tokens`, a switch on the tokenizer itself, between setting it and encoding. Setting it
        #: needs the tokenizer for itself, so everything else that uses it holds the lock too.
        self._switch = threading.Lock()
        self._without_post_processor: HfTokenizer | None = None

    @classmethod
    def from_json(cls, content: bytes) -> HuggingFaceReference:
        """Build from the bytes of a tokenizer.json. Raises BadTokenizerError with the reference's own words."""
        return cls(read_tokenizer(content), hashlib.sha256(content).hexdigest())

    def was_in_use(self) -> bool:
        """In a child: whether a thread that is not here any more is in the midst of it (forks.py)."""
        return forks.was_held(self._switch)

    def encode(self, text: str, add_special_tokens: bool, split_special_tokens: bool) -> Ids:
        with self._switch:
            self._tokenizer.encode_special_tokens = split_special_tokens
            encoding = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return np.array(encoding.ids, dtype=np.uint32)

    def offsets(self, text: str) -> Positions:
        with self._switch:
            self._tokenizer.encode_special_tokens = False
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)

    def untrimmed_offsets(self, text: str) -> Positions:
        """Spans as they are before a post-processor trims white space off them."""
        encoding = self._without_trimming().encode(text, add_special_tokens=False)
        return np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)

    def added_tokens(self) -> dict[int, AddedToken]:
        """Return id -> added token, by the ids that the reference really gives."""
        tokens: dict[int, AddedToken] = self._tokenizer.get_added_tokens_decoder()
        return tokens

    def _without_trimming(self) -> HfTokenizer:
        if self._without_post_processor is None:
            content: dict[str, Any] = json.loads(self._tokenizer.to_str())
            content["post_processor"] = None
            self._without_post_processor = type(self._tokenizer).from_str(json.dumps(content))
        return self._without_post_processor

    def pieces(self, text: str) -> Positions:
        # The post-processor may trim offsets, which would move a piece's start.
        encoding = self._without_trimming().encode(text, add_special_tokens=False)
        words = np.array(encoding.word_ids, dtype=np.int64)
        starts = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)[:, 0]
        first = np.ones(len(words), dtype=bool)
        first[1:] = words[1:] != words[:-1]
        return starts[first]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        with self._switch:
            for position, token in enumerate(ids):
                if not 0 <= token < 2**32 or self._tokenizer.id_to_token(token) is None:
                    raise BadIdError(f"id {token} at position {position} is not in this tokenizer's vocabulary")
            text: str = self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        return text


class TiktokenReference:
    """A `tiktoken.Encoding`, named by the SHA-256 of its pattern, ranks and special tokens."""

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding
        self.sha256 = tiktoken_sha256(encoding)

    def encode(self, text: str, add_special_tokens: bool, split_special_tokens: bool) -> Ids:
        # tiktoken has no template: add_special_tokens adds nothing.
        if split_special_tokens:
            return np.array(self._encoding.encode_ordinary(text), dtype=np.uint32)
        return np.array(self._encoding.encode(text, allowed_special="all"), dtype=np.uint32)

    def offsets(self, text: str) -> Positions:
        """Spans of each id, computed from its bytes: a token that holds part of a character spans all of it."""
        ids = self._encoding.encode(text, allowed_special="all")
        lengths = np.array([len(piece) for piece in self._encoding.decode_tokens_bytes(ids)], dtype=np.int64)
        data = text.encode()
        if int(lengths.sum()) != len(data):
            raise UnsupportedError("this encoding drops text that its pattern does not match, so its ids have no spans")
        ends = np.cumsum(lengths)
        first_bytes = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
        character = np.cumsum(first_bytes) - 1  # byte position -> the code point it belongs to
        spans = np.empty((len(ids), 2), dtype=np.int64)
        spans[:, 0] = character[ends - lengths]
        spans[:, 1] = character[ends - 1] + 1
        return spans

    def untrimmed_offsets(self, text: str) -> Positions:
        return self.offsets(text)

    def pieces(self, text: str) -> Positions:
        raise UnsupportedError("tiktoken does not tell where its pieces start")

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        special = self._encoding._special_tokens.values() if skip_special_tokens else ()
        known = [token for token in ids if token not in special]
        try:
            text: str = self._encoding.decode(known)
        except (KeyError, OverflowError):
            for position, token in enumerate(ids):
                try:
                    self._encoding.decode_single_token_bytes(token)
                except (KeyError, OverflowError):
                    raise BadIdError(f"id {token} at position {position} is not in this encoding") from None
            raise
        return text


def tiktoken_sha256(encoding: Any) -> str:
    """Name an encoding by its content: pattern, ranks and special tokens, in a fixed order."""
    digest = hashlib.sha256(b"tiktoken\0" + encoding._pat_str.encode() + b"\0")
    for table in (encoding._mergeable_ranks, encoding._special_tokens):
        for key, rank in sorted(table.items(), key=lambda entry: int(entry[1])):
            raw = key if isinstance(key, bytes) else key.encode()
            digest.update(len(raw).to_bytes(4, "little") + raw + int(rank).to_bytes(4, "little"))
        digest.update(b"\0")
    return digest.hexdigest()


class LazyReference:
    """A reference that is made when it is first asked, or again. sha256 names it beforehand.

    What is asked of it raises BadTokenizerError where it can't be made any more. made: the reference, where it is at
    hand already.
    """

    def __init__(self, sha256: str, make: Callable[[], Reference], made: Reference | None = None) -> None:
        self.sha256 = sha256
        self._make = make
        self._lock = threading.Lock()
        self._made = made
        forks.watch(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        # Its own locks are out of reach here.
        if isinstance(self._made, HuggingFaceReference) and self._made.was_in_use():
            self._made = None

    @property
    def made(self) -> bool:
        return self._made is not None

    def encode(self, text: str, add_special_tokens: bool, split_special_tokens: bool) -> Ids:
        return self._get().encode(text, add_special_tokens, split_special_tokens)

    def offsets(self, text: str) -> Positions:
        return self._get().offsets(text)

    def untrimmed_offsets(self, text: str) -> Positions:
        return self._get().untrimmed_offsets(text)

    def pieces(self, text: str) -> Positions:
        return self._get().pieces(text)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        return self._get().decode(ids, skip_special_tokens)

    def _get(self) -> Reference:
        made = self._made
        if made is None:
            with self._lock:
                made = self._made
                if made is None:
                    made = self._make()
                    if made.sha256 != self.sha256:
                        raise BadTokenizerError(f"its files changed since it was loaded: now {made.sha256}")
                    self._made = made
        return made
