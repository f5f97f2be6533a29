"""The tests' own judge of tiktoken's pieces: it accepts the right cuts, and no cut that differs anywhere."""

from __future__ import annotations

import random
import re

import pytest
from support.references import Tiktoken

#: Classes that Python's `re` and tiktoken's engine read alike on these characters.
PATTERN = r"[a-z]{1,4}|[0-9]{1,2}| ?[!?]+|\s+(?!\S)|\s+"
ALPHABET = "ab z09 !?  \n"


def right_pieces(text: str) -> list[int]:
    return [match.start() for match in re.finditer(PATTERN, text)]


@pytest.fixture(scope="module")
def judge() -> Tiktoken:
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {b"ab": 256, b"abab": 257, b"!!": 258}
    return Tiktoken(PATTERN, ranks, {"<s>": 300})


def test_right_cuts_are_accepted(judge: Tiktoken, rng: random.Random) -> None:
    for _ in range(300):
        text = "".join(rng.choices(ALPHABET, k=rng.randrange(0, 60)))
        assert judge.pieces_error(text, right_pieces(text)) == "", repr(text)


def test_wrong_cuts_are_refused(judge: Tiktoken, rng: random.Random) -> None:
    """One start removed, added or moved: each is seen, in runs of short pieces as well."""
    for _ in range(600):
        text = "".join(rng.choices(ALPHABET, k=rng.randrange(2, 40)))
        right = right_pieces(text)
        wrong = set(right)
        change = rng.randrange(3)
        if change != 0:
            wrong.discard(rng.choice(right))
        if change != 1:
            wrong.add(rng.randrange(len(text)))
        if sorted(wrong) != right:
            assert judge.pieces_error(text, sorted(wrong)) != "", (text, right, sorted(wrong))


def test_added_tokens_are_pieces(judge: Tiktoken) -> None:
    assert judge.pieces_error("ab<s>ab", [0, 2, 5]) == ""
    assert judge.pieces_error("ab<s>ab", [0, 2, 3, 4, 5]) != ""
