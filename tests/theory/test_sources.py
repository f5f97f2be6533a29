"""What a tokenizer can be loaded from: tekken files and rank files answer as tiktoken with the same ranks does."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tokseam.kernels import engine
from tokseam.kernels.errors import BadTokenizerError

PATTERN = r"[^\s\p{L}]+|\p{L}+|\s+"
WORDS = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc", b"bc", b"  ", "\u00e9".encode(), b"ca", b"abab"]
TEXTS = ["", "abc abab  caf\u00e9", "<s>abc", "a\nb  \u4e00", "bcabcab <s>"]


def tekken(**changes: Any) -> dict[str, Any]:
    config = {
        "pattern": PATTERN,
        "num_vocab_tokens": len(WORDS),
        "default_vocab_size": 10 + len(WORDS) - 1,  # the last entry lies beyond it
        "default_num_special_tokens": 10,
        "version": "v3",
    }
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(word).decode(), "token_str": None}
        for rank, word in enumerate(WORDS)
    ]
    return {"config": config | changes, "vocab": vocab}


def test_tekken(tmp_path: Path) -> None:
    import tiktoken

    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(tekken()))
    ours = engine.load(path)
    assert ours.status == "native", ours.reason
    ranks = {word: rank for rank, word in enumerate(WORDS[:-1])}
    plain = tiktoken.Encoding("t", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    for text in TEXTS:
        assert ours.encode(text).tolist() == [10 + rank for rank in plain.encode(text)], text
        assert ours.decode(ours.encode(text).tolist()) == text
    session = ours.session()
    session.reset("abc ab")
    session.append("c ca")
    assert session.ids().tolist() == ours.encode("abc abc ca").tolist()


def test_a_rank_file_with_its_description(tmp_path: Path, rng: random.Random) -> None:
    import tiktoken

    ranks = {word: rank for rank, word in enumerate(WORDS)}
    lines = [base64.b64encode(word) + b" " + str(rank).encode() for word, rank in ranks.items()]
    (tmp_path / "m.tiktoken").write_bytes(b"\n".join(lines) + b"\n")
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"ranks": "m.tiktoken", "pattern": PATTERN, "special_tokens": {"<s>": 900}}))
    ours = engine.load(path)
    assert ours.status == "native", ours.reason
    plain = tiktoken.Encoding("t", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<s>": 900})
    for text in TEXTS + ["".join(rng.choices("abc <s>\u00e9", k=20)) for _ in range(50)]:
        assert ours.encode(text).tolist() == plain.encode(text, allowed_special="all"), text
    assert ours.sha256 == engine.load(plain).sha256

    with pytest.raises(BadTokenizerError, match="does not say how text is split"):
        engine.load(tmp_path / "m.tiktoken")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"ranks": "none.tiktoken", "pattern": "a"}, "No such file"),
        ({"ranks": "bad.tiktoken", "pattern": "a"}, "line 2 is no token and rank"),
        ({"ranks": "good.tiktoken"}, "KeyError: 'pattern'"),
        ({"ranks": "good.tiktoken", "pattern": "(a"}, "not of the form"),
        ({"config": {}, "vocab": []}, "KeyError"),
        ({"config": {"default_num_special_tokens": "x"}, "vocab": []}, "ValueError"),
    ],
)
def test_bad_descriptions(content: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.tiktoken").write_bytes(b"YQ== 0\nYg==\n")
    (tmp_path / "good.tiktoken").write_bytes(b"YQ== 0\nYg== 1\n")
    path = tmp_path / "m.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadTokenizerError, match=words):
        engine.load(path)
