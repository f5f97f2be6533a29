"""No answer depends on what was asked before: each engine's worst known pattern, replayed.

Known patterns of other engines: a cache keyed by a prefix of 4,096 characters or more, so that a text is answered from
the tokens of its own prefix; a cache that answers the second time otherwise than the first; state that one text leaves
for the next, or one thread for another. Every answer here is compared with a fresh reference's.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from support import families, hostile

#: The length of prefix from which other engines cache, and lengths around it and its double.
LENGTHS = (4_095, 4_096, 4_097, 5_000, 8_192, 8_193)


def long_text(rng: random.Random, alphabet: list[str], length: int) -> str:
    """Return prose, code and hostile parts by turns: `length` characters."""
    plain = "The session's tokens aren't what they were; def f(x):\n    return x  # 12345 \u4f60\u597d caf\u00e9\n"
    parts: list[str] = []
    while sum(map(len, parts)) < length:
        parts.append(plain[rng.randrange(30) :] if rng.random() < 0.8 else hostile.hostile_text(rng, 6, alphabet))
    return "".join(parts)[:length]


@pytest.fixture
def alphabet(family: families.Family) -> list[str]:
    return hostile.atoms(family.literals)


def test_a_long_prefix_then_the_text(family: families.Family, alphabet: list[str], rng: random.Random) -> None:
    """The prefix ends in the middle of a word, a run of spaces, a number, a literal: wherever the length falls."""
    ours, reference = family.engine, family.reference
    for length in LENGTHS:
        text = long_text(rng, alphabet, length + 700)
        for end in (length, length + 1, length + rng.randrange(600)):
            prefix = text[:end]
            assert ours.encode(prefix).tolist() == reference.ids(prefix)
            assert ours.encode(text).tolist() == reference.ids(text)
            session = ours.session()
            session.reset(prefix)
            session.reset(text)
            assert session.ids().tolist() == reference.ids(text)
        other = text[:length] + "x" + text[length + 1 :]  # the same prefix, another character behind it
        assert ours.encode(other).tolist() == reference.ids(other)


def test_the_same_text_again(family: families.Family, alphabet: list[str], rng: random.Random) -> None:
    ours, reference = family.engine, family.reference
    text = long_text(rng, alphabet, 6_000)
    wanted = reference.ids(text)
    for _ in range(3):
        assert ours.encode(text).tolist() == wanted
        assert np.array_equal(ours.pieces(text), ours.pieces(text))
    session = ours.session()
    for _ in range(3):
        session.reset(text)
        assert session.ids().tolist() == wanted
        session.append("")
        assert session.ids().tolist() == wanted
    # With special tokens split and whole by turns: one switch must not reach the next call.
    split = reference.ids(text, False, True)
    for _ in range(3):
        assert ours.encode(text, split_special_tokens=True).tolist() == split
        assert ours.encode(text).tolist() == wanted


def test_many_texts_in_any_order_and_from_many_threads(
    family: families.Family, alphabet: list[str], rng: random.Random, effort: float
) -> None:
    ours, reference = family.engine, family.reference
    texts = [hostile.hostile_text(rng, rng.choice((1, 5, 30, 150)), alphabet) for _ in range(int(120 * effort))]
    texts += [long_text(rng, alphabet, length) for length in (300, 4_096, 20_000)]
    wanted = [reference.ids(text) for text in texts]
    orders = [list(range(len(texts))), list(reversed(range(len(texts)))), rng.sample(range(len(texts)), len(texts))]
    for order in orders:
        for index in order:
            assert ours.encode(texts[index]).tolist() == wanted[index]

    def ask(index: int) -> bool:
        session = ours.session()
        session.reset(texts[index])
        spans = ours.offsets(texts[index])
        return ours.encode(texts[index]).tolist() == wanted[index] == session.ids().tolist() and len(spans) == len(
            wanted[index]
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, chain.from_iterable(orders)))


def test_what_a_session_has_been_leaves_nothing_behind(
    family: families.Family, alphabet: list[str], rng: random.Random
) -> None:
    """A session that was long, was edited to nothing and became something else: as a new one of that text."""
    ours, reference = family.engine, family.reference
    session = ours.session()
    for _ in range(12):
        text = long_text(rng, alphabet, rng.choice((10, 1_000, 5_000)))
        session.append(text)
        assert session.ids().tolist() == reference.ids(session.text())
        at = rng.randrange(session.chars + 1)
        session.edit(at, session.chars, "")
        assert session.ids().tolist() == reference.ids(session.text())
        if rng.random() < 0.4:
            session.edit(0, session.chars, "")
            assert session.ids().tolist() == []
