"""The tokenizer under test, in every form that a peer may want it in: its file, its ranks, a tiktoken encoding."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Other imports stand where they are used: what a peer's load needs must not hide among what we need.
if TYPE_CHECKING:
    from support.references import Reference

#: The GPT-2 alphabet of byte-level BPE: printable bytes stand for themselves, the others from U+0100 on.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]


class NoSuchTokenizerError(Exception):
    """A name or path that this machine has no tokenizer for."""


@dataclass
class Subject:
    """A tokenizer by name (of the catalogue) or by the path of its tokenizer.json."""

    name: str
    source: Any = field(repr=False)  # a path to a tokenizer.json, or a tiktoken.Encoding

    @property
    def is_tiktoken(self) -> bool:
        return not isinstance(self.source, Path)

    @cached_property
    def reference(self) -> Reference:
        from . import records  # puts the tests' references on the path  # noqa: F401  # isort: skip
        from support import families

        return families.fresh_reference(self.source)

    @cached_property
    def content(self) -> dict[str, Any]:
        """The tokenizer.json, read."""
        found: dict[str, Any] = json.loads(self.json_path().read_bytes())
        return found

    @cached_property
    def literals(self) -> list[str]:
        """The literals of its special tokens."""
        if self.is_tiktoken:
            return sorted(self.source._special_tokens)
        return [token["content"] for token in self.content["added_tokens"] if token["special"]]

    def json_path(self) -> Path:
        if self.is_tiktoken:
            raise ValueError("it reads a tokenizer.json only, and this is a tiktoken encoding")
        path: Path = self.source
        return path

    def ranks_path(self) -> Path:
        from tokseam.scripts import tokenizer_catalogue

        path = tokenizer_catalogue.find(self.name)
        if path is None:
            raise ValueError(f"no file of ranks for {self.name}")
        return path

    def as_tiktoken(self) -> tuple[Any, bool]:
        """Return a tiktoken.Encoding with these ids as ranks, and whether the caller has to compose the text (NFC).

        That is right for vocabularies whose ids follow their merges; the comparison of ids decides. Raises ValueError
        for pipelines that an encoding cannot say.
        """
        import tiktoken

        if self.is_tiktoken:
            return self.source, False
        model, normalizer = self.content["model"], self.content["normalizer"]
        kind = normalizer["type"] if normalizer else ""
        if kind not in ("", "NFC") and normalizer.get("normalizers"):
            raise ValueError(f"a tiktoken encoding has no normalizer {kind}")
        splits = [
            stage
            for stage in (self.content["pre_tokenizer"] or {}).get("pretokenizers", [])
            if stage["type"] != "ByteLevel" or stage.get("use_regex")
        ]
        if model["type"] != "BPE" or len(splits) != 1 or splits[0]["type"] != "Split":
            raise ValueError(f"a tiktoken encoding has one splitting regex; this pipeline has {len(splits)} stages")
        to_byte = _alphabet()
        added = {token["content"]: token["id"] for token in self.content["added_tokens"]}
        ranks = {
            bytes(to_byte[character] for character in entry): rank
            for entry, rank in model["vocab"].items()
            if entry not in added
        }
        encoding = tiktoken.Encoding(
            self.name, pat_str=splits[0]["pattern"]["Regex"], mergeable_ranks=ranks, special_tokens=added
        )
        return encoding, kind == "NFC"


def _alphabet() -> dict[str, int]:
    to_byte = {chr(byte): byte for byte in _PRINTABLE}
    others = [byte for byte in range(256) if byte not in set(_PRINTABLE)]
    to_byte.update({chr(0x100 + number): byte for number, byte in enumerate(others)})
    return to_byte


def load(name_or_path: str) -> Subject:
    """Return the tokenizer of a catalogue's name or of a tokenizer.json's path. Raises NoSuchTokenizerError."""
    from tokseam.scripts import tokenizer_catalogue

    if name_or_path in tokenizer_catalogue.CATALOGUE:
        source = tokenizer_catalogue.load_source(name_or_path)
        if source is None:
            raise NoSuchTokenizerError(
                f"no copy of {name_or_path} here: run scripts/fetch_tokenizers --only {name_or_path}"
            )
        return Subject(name_or_path, source)
    path = Path(name_or_path)
    if not path.is_file():
        names = ", ".join(tokenizer_catalogue.CATALOGUE)
        raise NoSuchTokenizerError(f"{name_or_path} is neither a file nor one of {names}")
    return Subject(path.stem, path.resolve())
