"""What a tokenizer can be loaded from, each opened as a reference.

- a path to a tokenizer.json, or a `tokenizers.Tokenizer`: the reference is Hugging Face `tokenizers`;
- a `tiktoken.Encoding`: the reference is tiktoken;
- a path to a tekken.json (mistral-common): tiktoken with its pattern and ranks; its control tokens never come out of
  text, and the ids of ordinary ones stand behind them;
- a path to a rank description, {"ranks": "FILE.tiktoken", "pattern": REGEX, "special_tokens": {LITERAL: ID, ...}}, the
  rank file beside it: that alone does not say how text is split.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import BadTokenizerError
from .reference import HuggingFaceReference, Reference, TiktokenReference

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HfTokenizer

#: Bytes of a file that are read at once: its content need not be in memory in whole to be named.
_PART_BYTES = 1 << 18

Source: TypeAlias = "str | os.PathLike[str] | HfTokenizer | Any"


@dataclass(frozen=True)
class Made:
    """A tokenizer's reference, and what is compiled for the native path: its JSON as bytes, or its Encoding.

    files: others that it was made from, by name, with their SHA-256.
    """

    reference: Reference
    described: Any
    files: tuple[tuple[str, str], ...] = ()


class Opened(ABC):
    """A tokenizer, read but not understood yet.

    content_sha256 names what was read. folder: where other files that it names lie.
    """

    folder: Path | None = None

    def __init__(self, content_sha256: str) -> None:
        self.content_sha256 = content_sha256

    def json(self) -> bytes | None:
        """Return the content that may be a tokenizer.json; None where it is none. Raises BadTokenizerError."""
        return None

    @abstractmethod
    def make(self) -> Made:
        """Build the reference, of this very content, however much later. Raises BadTokenizerError."""


def open_source(source: Source) -> Opened:
    """Read a tokenizer's content. Raises BadTokenizerError when the source can't be read."""
    if isinstance(source, (str, os.PathLike)):
        return _OpenedFile(Path(source))
    if type(source).__module__.split(".")[0] == "tiktoken":
        return _OpenedEncoding(source)
    from tokenizers import Tokenizer as HfTokenizer

    if isinstance(source, HfTokenizer):
        return _OpenedContent(source.to_str().encode())
    raise BadTokenizerError(
        "a tokenizer is a path to a tokenizer.json, a tokenizers.Tokenizer or a tiktoken.Encoding, "
        f"not {type(source).__name__}"
    )


class _OpenedContent(Opened):
    def __init__(self, content: bytes) -> None:
        super().__init__(_sha256(content))
        self._content = content

    def json(self) -> bytes:
        return self._content

    def make(self) -> Made:
        return Made(HuggingFaceReference.from_json(self._content), self._content)


class _OpenedEncoding(Opened):
    def __init__(self, encoding: Any) -> None:
        self._made = Made(TiktokenReference(encoding), encoding)
        super().__init__(self._made.reference.sha256)

    def make(self) -> Made:
        return self._made


class _OpenedFile(Opened):
    """The file stays open, its content is not kept: whoever puts another file in its place leaves this one to us."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
            weakref.finalize(self, os.close, self._file)
            super().__init__(self._digest())
        except OSError as error:
            raise BadTokenizerError(f"{path}: {error.strerror}") from None
        self.folder = path.parent

    def json(self) -> bytes:
        content = b"".join(self._parts(1 << 30))
        if _sha256(content) != self.content_sha256:
            raise BadTokenizerError(f"{self._path}: changed in place since it was loaded")
        return content

    def make(self) -> Made:
        return _make_path(self._path, self.json())

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for part in self._parts(_PART_BYTES):
            digest.update(part)
        return digest.hexdigest()

    def _parts(self, size: int) -> Iterator[bytes]:
        at = 0
        while part := os.pread(self._file, size, at):
            yield part
            at += len(part)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _make_path(path: Path, content: bytes) -> Made:
    try:
        described = json.loads(content)
    except ValueError:
        described = None
        if _looks_like_ranks(content):
            raise BadTokenizerError(
                f"{path}: a rank file does not say how text is split; load a JSON file beside it that does: "
                '{"ranks": "' + path.name + '", "pattern": REGEX, "special_tokens": {LITERAL: ID}}'
            ) from None
    if isinstance(described, dict) and isinstance(described.get("vocab"), list) and "config" in described:
        encoding, files = _described(path, lambda: (_tekken(described), ()))
    elif isinstance(described, dict) and "ranks" in described:
        encoding, files = _described(path, lambda: _ranks(path, described))
    else:
        return Made(HuggingFaceReference.from_json(content), content)
    return Made(TiktokenReference(encoding), encoding, files)


def _described(path: Path, build: Any) -> Any:
    try:
        return build()
    except ImportError:
        raise BadTokenizerError(f"{path}: its reference is tiktoken, which is not installed") from None
    except OSError as error:
        raise BadTokenizerError(f"{path}: {error.filename}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadTokenizerError(
            f"{path}: not of the form that is understood: {type(error).__name__}: {error}"
        ) from None


def _looks_like_ranks(content: bytes) -> bool:
    word, _, rank = content.split(b"\n", 1)[0].strip().partition(b" ")
    try:
        return bool(base64.b64decode(word, validate=True)) and rank.isdigit()
    except binascii.Error:
        return False


def _tekken(described: dict[str, Any]) -> Any:
    import tiktoken

    config = described["config"]
    control = int(config["default_num_special_tokens"])
    ordinary = described["vocab"][: int(config["default_vocab_size"]) - control]
    ranks = {base64.b64decode(entry["token_bytes"]): control + int(entry["rank"]) for entry in ordinary}
    return tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})


def _ranks(path: Path, described: dict[str, Any]) -> tuple[Any, tuple[tuple[str, str], ...]]:
    import tiktoken

    special = {str(literal): int(id_) for literal, id_ in described.get("special_tokens", {}).items()}
    ranks = {}
    content = (path.parent / described["ranks"]).read_bytes()
    for number, line in enumerate(content.splitlines(), 1):
        if not line:
            continue
        word, _, rank = line.partition(b" ")
        if not rank.strip().isdigit():
            raise ValueError(f"{described['ranks']}: line {number} is no token and rank")
        ranks[base64.b64decode(word)] = int(rank)
    encoding = tiktoken.Encoding(path.stem, pat_str=described["pattern"], mergeable_ranks=ranks, special_tokens=special)
    return encoding, ((described["ranks"], _sha256(content)),)
