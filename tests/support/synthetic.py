"""Tiny tokenizers made to order.

A tokenizer.json with a vocabulary of a few entries and whatever pipeline a test is about.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as HfTokenizer
from tokseam.kernels import engine
from tokseam.kernels.compile.pipeline import byte_alphabet

#: Byte -> the character that stands for it in a byte-level vocabulary.
CHARACTER = {byte: char for char, byte in byte_alphabet().items()}

#: What real tokenizers split by.
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

#: ByteLevel as it stands behind splitting stages: it only maps bytes to characters.
BYTES_ONLY = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def as_entry(text: str) -> str:
    """Spell `text` as a byte-level vocabulary does."""
    return "".join(CHARACTER[byte] for byte in text.encode())


def split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def description(
    stages: list[dict[str, Any]],
    *,
    merges: list[tuple[str, str]] = (),  # type: ignore[assignment]
    entries: list[str] = (),  # type: ignore[assignment]
    without: bytes = b"",
    **other: Any,
) -> dict[str, Any]:
    """Return a tokenizer.json: all single bytes but `without`, what `merges` (plain text) make, and `entries`.

    Any other key replaces the description's own (normalizer=..., added_tokens=...), or the model's (model={...}).
    """
    pieces = [CHARACTER[byte] for byte in range(256) if byte not in without]
    pieces += [as_entry(left + right) for left, right in merges] + [as_entry(entry) for entry in entries]
    vocab = {piece: id_ for id_, piece in enumerate(dict.fromkeys(pieces))}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": [[as_entry(left), as_entry(right)] for left, right in merges],
    }
    return (
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*stages, BYTES_ONLY]},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        }
        | other
        | {"model": model | other.get("model", {})}
    )


def added(content: str, id_: int, **flags: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": id_, "content": content} | plain | flags


def in_front(token: str, id_: int) -> dict[str, Any]:
    """Return a template that puts one special token in front of a text."""
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [id_], "tokens": [token]}},
    }


def pair(described: dict[str, Any]) -> tuple[engine.Tokenizer, HfTokenizer]:
    """Return ours and a fresh reference."""
    content = json.dumps(described, ensure_ascii=False)
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # as a file: the reference's own to_str would drop what is listed twice
        path = Path(folder) / "tokenizer.json"
        path.write_text(content)
        return engine.load(path), HfTokenizer.from_str(content)


def native(described: dict[str, Any]) -> tuple[engine.Tokenizer, HfTokenizer]:
    """As pair(), and ours must be native."""
    ours, reference = pair(described)
    assert ours.status == "native", ours.reason
    return ours, reference
