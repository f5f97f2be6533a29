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
import json
import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as HfTokenizer

from .errors import BadTokenizerError
from .reference import HuggingFaceReference, Reference, TiktokenReference

Source = str | os.PathLike[str] | HfTokenizer | Any


def open_source(source: Source) -> tuple[Reference, Any]:
    """Open a tokenizer's reference, and what is compiled for the native path: its JSON (bytes), or its Encoding.

    Raises BadTokenizerError when the source can't be read as a tokenizer.
    """
    if isinstance(source, (str, os.PathLike)):
        return _open_path(Path(source))
    if isinstance(source, HfTokenizer):
        content = source.to_str().encode()
        return HuggingFaceReference.from_json(content), content
    if type(source).__module__.split(".")[0] == "tiktoken":
        return TiktokenReference(source), source
    raise BadTokenizerError(
        "a tokenizer is a path to a tokenizer.json, a tokenizers.Tokenizer or a tiktoken.Encoding, "
        f"not {type(source).__name__}"
    )


def _open_path(path: Path) -> tuple[Reference, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadTokenizerError(f"{path}: {error.strerror}") from None
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
        encoding = _described(path, lambda: _tekken(described))
    elif isinstance(described, dict) and "ranks" in described:
        encoding = _described(path, lambda: _ranks(path, described))
    else:
        return HuggingFaceReference.from_json(content), content
    return TiktokenReference(encoding), encoding


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


def _ranks(path: Path, described: dict[str, Any]) -> Any:
    import tiktoken

    special = {str(literal): int(id_) for literal, id_ in described.get("special_tokens", {}).items()}
    ranks = {}
    for number, line in enumerate((path.parent / described["ranks"]).read_bytes().splitlines(), 1):
        if not line:
            continue
        word, _, rank = line.partition(b" ")
        if not rank.strip().isdigit():
            raise ValueError(f"{described['ranks']}: line {number} is no token and rank")
        ranks[base64.b64decode(word)] = int(rank)
    return tiktoken.Encoding(path.stem, pat_str=described["pattern"], mergeable_ranks=ranks, special_tokens=special)
