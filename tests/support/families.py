"""The tokenizer families of the exactness tests, each with where it comes from and what the engine must say of it."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tokseam.kernels import engine
from tokseam.scripts import tokenizer_catalogue

from .references import HuggingFace, Reference, Tiktoken

#: Families that the engine must answer natively.
NATIVE = (
    *("cl100k", "o200k", "llama3_1", "qwen3", "gptoss", "deepseek_v3", "deepseek_v4", "gpt2"),
    *("llama2", "gemma3"),  # SentencePiece-style: no pre-tokenizer
)
#: Families that the reference answers, and the status says why: here a real one with a normalizer that is not proved.
BY_REFERENCE = ("unaccented",)
ALL = NATIVE + BY_REFERENCE


@dataclass
class Family:
    """One tokenizer: the engine's object, a fresh reference, and the literals that hostile texts are made of."""

    name: str
    source: Any = field(repr=False)  # a path to a tokenizer.json, or a tiktoken.Encoding

    @property
    def is_tiktoken(self) -> bool:
        return not isinstance(self.source, Path)

    @cached_property
    def engine(self) -> engine.Tokenizer:
        return engine.load(self.source)

    @cached_property
    def reference(self) -> Reference:
        return fresh_reference(self.source)

    @cached_property
    def literals(self) -> list[str]:
        """The added tokens that are most likely to be cut wrongly: a few of each length and flag."""
        if self.is_tiktoken:
            return sorted(self.source._special_tokens)
        return literals_of(self.source)


def literals_of(path: Path) -> list[str]:
    added = json.loads(path.read_bytes())["added_tokens"]
    by_shape: dict[tuple[int, bool, bool], list[str]] = {}
    for token in added:
        by_shape.setdefault((len(token["content"]), token["special"], token["normalized"]), []).append(token["content"])
    return sorted({literal for group in by_shape.values() for literal in (*group[:2], group[-1])})[:80]


def fresh_reference(source: Any) -> Reference:
    """Build a reference object that shares nothing with the engine's."""
    if isinstance(source, Path):
        return HuggingFace.from_file(source)
    return Tiktoken.from_encoding(source)


@lru_cache(maxsize=1)
def _unaccented() -> Path | None:
    """Make DeepSeek V4 with a normalizer that strips accents."""
    plain = tokenizer_catalogue.load_source("deepseek_v4")
    if plain is None:
        return None
    content = json.loads(Path(plain).read_bytes())
    content["normalizer"] = {"type": "StripAccents"}
    folder = tempfile.mkdtemp(prefix="tokseam-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def load(name: str) -> Family | None:
    """Return the family, or None where this machine has no copy of its tokenizer."""
    source = _unaccented() if name == "unaccented" else tokenizer_catalogue.load_source(name)
    return None if source is None else Family(name, source)
