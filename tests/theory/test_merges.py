"""BPE with arbitrary ranks against the reference: non-monotone tables, duplicates, missing bytes, long pieces."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.synthetic import CHARACTER, as_entry, description, native, pair, split

WORDS = split(r"[^ ]+| +")


def random_merges(rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Merges over the letters abc in any order: a part is often made by a later merge than the one that uses it."""
    parts, merges = ["a", "b", "c"], []
    for _ in range(count):
        left, right = rng.choice(parts), rng.choice(parts)
        if len(left + right) <= 12:
            merges.append((left, right))
            parts.append(left + right)
    rng.shuffle(merges)
    return merges


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_random_merge_tables(ignore_merges: bool, rng: random.Random, effort: float) -> None:
    for _ in range(int(60 * effort)):
        merges = random_merges(rng, rng.randint(3, 40))
        merges += rng.choices(merges, k=3)  # a pair listed twice: the last one wins
        entries = ["".join(rng.choices("abc", k=rng.randint(2, 6))) for _ in range(5)]  # no merge makes them
        ours, reference = native(
            description([WORDS], merges=merges, entries=entries, model={"ignore_merges": ignore_merges})
        )
        for _ in range(12):
            text = "".join(rng.choices("abc", weights=(5, 3, 2), k=rng.choice((3, 8, 30, 47, 48, 49, 90, 200))))
            assert ours.encode(text).tolist() == reference.encode(text).ids, (merges, text)
        for entry in entries:
            assert ours.encode(entry).tolist() == reference.encode(entry).ids


def test_random_ranks_as_tiktoken(rng: random.Random, effort: float) -> None:
    """tiktoken merges by the rank of what comes out: different pairs can have one rank, and the leftmost goes first."""
    import tiktoken
    from tokseam.kernels import engine

    for _ in range(int(60 * effort)):
        words = list({"".join(rng.choices("ab", k=rng.randint(2, 6))).encode() for _ in range(25)})
        rng.shuffle(words)
        ranks = {bytes([byte]): byte for byte in range(256)} | {word: 256 + i for i, word in enumerate(words)}
        encoding = tiktoken.Encoding("t", pat_str=r"[^ ]+| +", mergeable_ranks=ranks, special_tokens={"<s>": 9999})
        ours = engine.load(encoding)
        assert ours.status == "native", ours.reason
        for _ in range(12):
            text = "".join(rng.choices("ab", k=rng.choice((2, 5, 20, 60, 300)))) + " <s>a"
            assert ours.encode(text).tolist() == encoding.encode(text, allowed_special="all")
            assert ours.encode(text, split_special_tokens=True).tolist() == encoding.encode_ordinary(text)


def test_the_last_of_two_equal_merges_wins() -> None:
    # (a, b) comes first and again behind (b, c): by its last rank it loses to it.
    ours, reference = native(description([WORDS], merges=[("a", "b"), ("b", "c"), ("a", "b")]))
    assert ours.encode("abc").tolist() == reference.encode("abc").ids
    assert [reference.id_to_token(id_) for id_ in ours.encode("abc").tolist()] == ["a", "bc"]


def test_a_byte_missing_from_the_vocabulary_vanishes() -> None:
    described = description([WORDS], merges=[("a", "b"), ("ab", "c")], without=b"xz")
    ours, reference = native(described)
    for text in ("axb", "x", "xx zz", "axbxc abc", "zab c", "x\u00e9x"):
        assert ours.encode(text).tolist() == reference.encode(text).ids
        assert ours.offsets(text).tolist() == [list(span) for span in reference.encode(text).offsets], text
    session = ours.session()
    session.reset("ab x ab")
    session.append("x c")
    assert session.ids().tolist() == reference.encode("ab x abx c").ids


def test_merges_over_what_is_dropped(rng: random.Random, effort: float) -> None:
    """A byte without an entry vanishes, and its neighbours merge, across characters: no place may be parted then."""
    # They share bytes; those of the last three may be missing in the middle, at the beginning, or whole.
    characters = ["\u00e9", "\u0429", "\u4e00", "\u4e38", "\U00041041", "\U00068524", "\U000515bd", "\x03", "\x7f", "a"]
    alphabet = sorted({byte for character in characters for byte in character.encode()})
    for _ in range(int(60 * effort)):
        missing = bytes(rng.sample(alphabet, rng.choice((1, 1, 2, 4))))
        described = description([WORDS], without=missing)
        vocab, merges = described["model"]["vocab"], described["model"]["merges"]
        parts = [CHARACTER[byte] for byte in alphabet if byte not in missing]
        for _ in range(rng.randint(3, 40)):
            left, right = rng.choice(parts), rng.choice(parts)
            if left + right in vocab:
                continue
            parts.append(left + right)
            vocab[left + right] = len(vocab) + 1_000
            merges.append([left, right])
        ours, reference = native(described)
        for _ in range(12):
            text = "".join(rng.choices(characters, k=rng.choice((2, 3, 5, 20, 200))))
            assert ours.encode(text).tolist() == reference.encode(text).ids, (missing, merges, text)


def test_an_unknown_token_for_a_missing_byte_is_refused() -> None:
    described = description([WORDS], entries=["u"], without=b"x", model={"unk_token": as_entry("u")})
    ours, reference = pair(described)
    assert ours.status == "reference"
    assert "lacks the byte 0x78" in ours.reason
    assert ours.encode("axb").tolist() == reference.encode("axb").ids


def test_a_vocabulary_may_lack_what_utf8_never_holds() -> None:
    ours, _ = native(description([WORDS], without=bytes([0xC0, 0xC1, *range(0xF5, 0x100)]), model={"unk_token": "a"}))
    assert ours.encode("\U0010ffff").tolist() != []


@pytest.mark.parametrize("unit", ["a", "ab", "abc", "b\u00e9", "\u4e00"])
def test_long_pieces(unit: str, rng: random.Random) -> None:
    ours, reference = native(description([WORDS], merges=random_merges(rng, 40)))
    text = unit * (20_000 // len(unit))
    assert ours.encode(text).tolist() == reference.encode(text).ids


def test_two_entries_of_one_id_are_refused() -> None:
    described: dict[str, Any] = description([WORDS])
    described["model"]["vocab"][CHARACTER[ord("a")]] = described["model"]["vocab"][CHARACTER[ord("b")]]
    ours, _ = pair(described)
    assert ours.status == "reference"
    assert "have one id" in ours.reason
