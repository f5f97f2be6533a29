"""Descriptions of tokenizers put together at random: over bytes, and over characters (SentencePiece-style)."""

from __future__ import annotations

import random
from typing import Any

from .synthetic import BYTES_ONLY, added, description, split

PATTERNS = (
    *(r"\s+(?!\S)|\s+", r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\p{N}{1,3}", r"[^\s]+", r"\s"),
    *(r"(?i:'s|'ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|\s*[\r\n]+|\s+(?!\S)", r"[\r\n]", r"\s?\p{L}+", r"\p{Lu}\p{Ll}*"),
    *(r"[a-z]+|[A-Z]+(?![a-z])|.", r"\p{M}+|\p{L}\p{M}*", r"ab|b", r"a(?=b)|\s", r"\S+\s?", r"[\p{P}\p{S}]+[\r\n]*"),
)
BEHAVIORS = ("Isolated", "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
LITERALS = ("<s>", "<s>x", "ab", " b", "\u00e9", "e\u0301", "\n\n", "  ", "<", "[M]", "A", "\u2581a", "1", "\ufb01")
MERGES = (("a", "b"), ("b", "a"), (" ", "a"), ("ab", "c"), ("b", "c"), (" ", " "), ("1", "2"), ("'", "s"), ("s", ">"))


def normalizer(rng: random.Random) -> dict[str, Any] | None:
    kinds: list[dict[str, Any]] = [{"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")]
    kinds += [{"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, {"type": "Prepend", "prepend": "_"}]
    kinds += [{"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "StripAccents"}]
    if rng.random() < 0.4:
        return None
    if rng.random() < 0.6:
        return rng.choice(kinds)
    return {"type": "Sequence", "normalizers": rng.sample(kinds, rng.randint(0, 2))}


def stage(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.55:
        return split(rng.choice(PATTERNS), rng.choice(BEHAVIORS), rng.random() < 0.2)
    return rng.choice(
        (
            {"type": "Digits", "individual_digits": rng.random() < 0.5},
            {"type": "Punctuation", "behavior": rng.choice(BEHAVIORS)},
            {"type": "Whitespace"},
            {"type": "WhitespaceSplit"},
            {"type": "BertPreTokenizer"},
            {"type": "CharDelimiterSplit", "delimiter": "a"},
        )
    )


def pipeline(rng: random.Random) -> dict[str, Any]:
    """Describe a byte-level tokenizer with random parts."""
    stages = [stage(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    tokens = [
        added(literal, 300 + number, **{flag: rng.random() < (0.5 if flag == "normalized" else 0.25) for flag in flags})
        for number, literal in enumerate(rng.sample(LITERALS, rng.randint(0, 4)))
    ]
    last = rng.choice((BYTES_ONLY, BYTES_ONLY | {"use_regex": True}, BYTES_ONLY | {"add_prefix_space": True}))
    described = description(
        [],
        merges=rng.sample(MERGES, rng.randint(2, len(MERGES))),
        entries=rng.sample(["abc", "aab", "bb", "\u00e9", "x y"], 2),
        without=rng.choice((b"", b"", b"z\x01")),
        added_tokens=tokens,
        normalizer=normalizer(rng),
        pre_tokenizer={"type": "Sequence", "pretokenizers": [*stages, last]},
        model={"ignore_merges": rng.random() < 0.3},
    )
    # A merge may stand in front of the one that makes its part, but its parts must be entries.
    vocabulary = described["model"]["vocab"]
    described["model"]["merges"] = [
        pair for pair in described["model"]["merges"] if all(part in vocabulary for part in (*pair, "".join(pair)))
    ]
    if rng.random() < 0.3:
        trimming = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
        described["post_processor"] = trimming | {"add_prefix_space": rng.random() < 0.5}
    return described


def character_pipeline(rng: random.Random) -> dict[str, Any]:
    """Describe a tokenizer over characters (SentencePiece-style) with random parts."""
    pairs = (
        ("\u2581", "a"),
        ("a", "b"),
        ("b", "a"),
        ("\u2581a", "b"),
        ("\u2581", "\u2581"),
        ("ab", "a"),
        (">", "\u2581"),
    )
    merges = rng.sample(pairs, rng.randint(1, len(pairs)))
    entries = ["<unk>", "<s>", *"\u2581ab<s>1\u00e9\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    entries += ["".join(pair) for pair in pairs]
    vocab = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    known = {"ab", "\u2581a", *"\u2581ab<s>1"}
    merges = [pair for pair in merges if set(pair) <= known]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    prepend = {"type": "Prepend", "prepend": "\u2581"}
    metaspace = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": rng.choice(("first", "always", "never")),
        "split": rng.random() < 0.3,
    }
    by_normalizer = rng.random() < 0.6
    parts = rng.choice(([prepend, replace], [replace], [replace, prepend], []))
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    tokens = [added("<s>", 1)] + [
        added(literal, 900 + number, **{flag: rng.random() < (0.5 if flag == "normalized" else 0.2) for flag in flags})
        for number, literal in enumerate(rng.sample(LITERALS, rng.randint(0, 3)))
        if literal != "<s>"
    ]
    described = description(
        [],
        added_tokens=tokens,
        normalizer={"type": "Sequence", "normalizers": parts} if by_normalizer else None,
        pre_tokenizer=None if by_normalizer else metaspace,
    )
    described["model"] |= {
        "vocab": vocab,
        "merges": [list(pair) for pair in merges],
        "unk_token": "<unk>",
        "fuse_unk": rng.random() < 0.5,
        "byte_fallback": rng.random() < 0.8,
        "ignore_merges": rng.random() < 0.2,
    }
    return described
