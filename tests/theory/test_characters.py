"""BPE over the characters of whole segments (SentencePiece-style): prefixes, markers, byte tokens, cuts in a piece."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.synthetic import added, native, pair
from tokseam.kernels import engine

MARK = "\u2581"
PREPEND = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": MARK},
        {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
    ],
}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}


def metaspace(scheme: str, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def described(merges: list[tuple[str, str]], characters: str = f"abc>{MARK}", **other: Any) -> dict[str, Any]:
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    entries = dict.fromkeys(["<unk>", *names, *characters, *(left + right for left, right in merges)])
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": "<unk>",
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": True,
        "ignore_merges": False,
        "vocab": {entry: id_ for id_, entry in enumerate(entries)},
        "merges": [list(merge) for merge in merges],
    }
    plain = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added("<unk>", 0)],
        "normalizer": REPLACE,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
    }
    return plain | other | {"model": model | other.get("model", {})}


def random_merges(rng: random.Random, count: int) -> list[tuple[str, str]]:
    parts, merges = [*"abc", MARK, ">"], []
    for _ in range(count):
        left, right = rng.choice(parts), rng.choice(parts)
        if len(left + right) <= 6 and (left, right) not in merges:
            merges.append((left, right))
            parts.append(left + right)
    rng.shuffle(merges)
    return merges


PIPELINES: list[dict[str, Any]] = [
    {"normalizer": PREPEND},
    {"normalizer": REPLACE},
    {
        "normalizer": REPLACE,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
    },
    *(
        {"normalizer": None, "pre_tokenizer": metaspace(scheme, split)}
        for scheme in ("always", "first", "never")
        for split in (False, True)
    ),
    {"normalizer": PREPEND, "added_tokens": [added("<unk>", 0), added("b>", 900, normalized=True, special=False)]},
    {"normalizer": REPLACE, "added_tokens": [added("<unk>", 0), added("a b", 900, normalized=True), added("c", 901)]},
    {
        "normalizer": PREPEND,
        "added_tokens": [added("<unk>", 0), added("<s>", 900, rstrip=True), added("<t>", 901, lstrip=True)],
    },
    {
        "normalizer": None,
        "pre_tokenizer": metaspace("always", True),
        "added_tokens": [added("ab", 900, single_word=True)],
    },
]
ALPHABET = ["a", "b", "c", ">", " ", "  ", MARK, "\u4e00", "\U0001f642", "<unk>", "<s>", "<t> ", "ab", "\n", "a b"]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_random_tables_and_texts(pipeline: dict[str, Any], rng: random.Random, effort: float) -> None:
    for _ in range(int(12 * effort)):
        ours, reference = native(described(random_merges(rng, rng.randint(2, 25)), **pipeline))
        whole = engine.Tokenizer(ours._reference, None, "")
        for _ in range(25):
            text = "".join(rng.choices(ALPHABET, k=rng.randint(0, 15)))
            encoding = reference.encode(text, add_special_tokens=False)
            assert ours.encode(text).tolist() == encoding.ids, text
            assert ours.offsets(text).tolist() == [list(span) for span in encoding.offsets], text
            assert ours.pieces(text).tolist() == whole.pieces(text).tolist(), text
            for cut in ours.cuts(text).tolist():
                sides = ours.encode(text[:cut]).tolist() + ours.encode(text[cut:], continued=True).tolist()
                assert sides == encoding.ids, (text, cut)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_sessions(pipeline: dict[str, Any], rng: random.Random, effort: float) -> None:
    for _ in range(int(6 * effort)):
        ours, reference = native(described(random_merges(rng, 20), **pipeline))
        session, text = ours.session(), ""
        mirror = session.ids().tolist()
        for _ in range(40):
            start = rng.choice((len(text), 0, rng.randint(0, len(text))))
            stop = min(len(text), start + rng.choice((0, 0, 1, 4, 900)))
            new = "".join(rng.choices(ALPHABET, k=rng.choice((0, 1, 5, 600))))
            splice = session.edit(start, stop, new)
            text = text[:start] + new + text[stop:]
            mirror[splice.start : splice.stop] = splice.ids.tolist()
            assert mirror == reference.encode(text).ids == session.ids().tolist()
            if rng.random() < 0.2:
                session = session.fork()
        assert ours.mismatches == 0


def test_a_token_over_a_marker_keeps_its_place_whole() -> None:
    """As in Gemma 3, whose one token with a marker inside is '>', marker, '</': cuts before all other markers."""
    ours, reference = native(described([(MARK, "<"), (">", MARK + "<"), (MARK, "a"), ("b", "c")], f"abc<>{MARK}"))
    assert ours.cuts("c> <a").tolist() == [1, 4]  # not between > and the space, nor between the space and <
    assert ours.cuts("c a").tolist() == [1]
    assert ours.encode("c> <a").tolist() == reference.encode("c> <a").ids


def test_a_long_text_without_a_space(rng: random.Random) -> None:
    ours, reference = native(described(random_merges(rng, 30)))
    text = "".join(rng.choices("abc", k=30_000))
    assert ours.encode(text).tolist() == reference.encode(text).ids


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": {"byte_fallback": False}}, "byte_fallback"),
        ({"model": {"ignore_merges": True}}, "ignore_merges"),
        ({"normalizer": {"type": "Lowercase"}}, "Lowercase"),
        ({"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "bb"}}, "replaces a character"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}}, "Replace"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "Whitespace"),
        ({"pre_tokenizer": metaspace("first", False), "normalizer": REPLACE}, "Metaspace"),
    ],
)
def test_refusals(change: dict[str, Any], reason: str) -> None:
    ours, reference = pair(described([("a", "b")], **change))
    assert ours.status == "reference"
    assert reason in ours.reason
    assert ours.encode("ab c\u4e00").tolist() == reference.encode("ab c\u4e00").ids


def test_byte_tokens_in_merges_are_refused() -> None:
    ours, _ = pair(described([("<0x41>", "a")]))
    assert ours.status == "reference"
    assert "byte token <0x41>" in ours.reason
