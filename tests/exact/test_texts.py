"""Full encodes: ids, offsets and pieces equal a fresh reference's, on texts built to hurt, code, and many languages.

Sessions have their own file (test_sessions.py), as have the inputs that broke others (test_cases.py).
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import hostile, shared_data
from support.families import Family
from tokseam.scripts import transcripts

#: Characters of each slice of a large text; the reference needs about a second a megabyte, and is asked twice.
SLICE_CHARS = 6_000


def assert_same(family: Family, text: str) -> None:
    """Compare ids, offsets and pieces of one text."""
    tokenizer = family.engine
    ids, offsets = family.reference.ids_and_offsets(text)
    found = tokenizer.encode(text)
    assert found.dtype == np.uint32
    assert shared_data.difference(found.tolist(), ids) == "", repr(text[:2000])
    spans = tokenizer.offsets(text)
    assert spans.shape == (len(ids), 2)
    assert spans.dtype == np.int64
    assert [tuple(span) for span in spans.tolist()] == offsets, repr(text[:2000])
    starts = tokenizer.pieces(text)
    assert starts.dtype == np.int64
    assert family.reference.pieces_error(text, starts.tolist()) == "", repr(text[:2000])


def test_status_is_native(family: Family) -> None:
    assert family.engine.status == "native", family.engine.reason
    assert len(family.engine.sha256) == 64


def test_status_is_reference_with_a_reason(reference_family: Family) -> None:
    assert reference_family.engine.status == "reference"
    assert len(reference_family.engine.reason.split()) >= 3, reference_family.engine.reason


def test_hostile_texts(family: Family, rng: random.Random, effort: float) -> None:
    alphabet = hostile.atoms(family.literals)
    for _ in range(int(150 * effort)):
        assert_same(family, hostile.hostile_text(rng, rng.randrange(0, 120), alphabet))


@given(data=st.data())
def test_generated_texts(family: Family, data: st.DataObject) -> None:
    assert_same(family, data.draw(hostile.hostile_texts(family.literals), label="text"))


def test_every_pair_of_atoms(family: Family, rng: random.Random, effort: float) -> None:
    """Two atoms side by side, a few thousand pairs a text, so that a wrong seam has neighbours to hide nowhere."""
    alphabet = hostile.atoms(family.literals)
    for _ in range(int(6 * effort)):
        assert_same(family, "".join(rng.choice(alphabet) + rng.choice(alphabet) for _ in range(1_500)))


def test_code_points_in_order(family: Family, rng: random.Random, effort: float) -> None:
    """Blocks of Unicode, each code point between a letter, a space and a digit."""
    for _ in range(int(12 * effort)):
        low = rng.randrange(rng.choice((0x100, 0x3000, 0x20000, 0x110000)))
        codes = [code for code in range(low, min(low + 400, 0x110000)) if not 0xD800 <= code < 0xE000]
        assert_same(family, "".join(f"a{chr(code)}b {chr(code)} 1{chr(code)}'{chr(code)}" for code in codes))


def test_source_code(family: Family, rng: random.Random, effort: float) -> None:
    assert_same(family, transcripts.source_text(int(120_000 * effort), seed=rng.randrange(1 << 30)))


def test_long_pieces(family: Family) -> None:
    """Pieces far longer than any vocabulary entry: the near-linear path, small enough for the reference."""
    for unit, count in (
        ("a", 3_000),
        ("xyz", 1_500),
        (" ", 2_000),
        ("\n", 2_000),
        ("=", 2_000),
        ("1", 2_000),
        ("é", 800),
    ):
        assert_same(family, unit * count)
        assert_same(family, "x" + unit * count + "y")
    assert_same(family, "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyzABC", k=4_000)))


def test_bytes_and_str_agree(family: Family, rng: random.Random) -> None:
    text = hostile.hostile_text(rng, 300, hostile.atoms(family.literals))
    encoded = text.encode()
    wanted = family.engine.encode(text).tolist()
    for form in (encoded, bytearray(encoded), memoryview(encoded)):
        assert family.engine.encode(form).tolist() == wanted
    assert family.engine.offsets(encoded).tolist() == family.engine.offsets(text).tolist()


@pytest.mark.parametrize("split_special_tokens", [False, True])
@pytest.mark.parametrize("add_special_tokens", [False, True])
def test_flags(family: Family, rng: random.Random, add_special_tokens: bool, split_special_tokens: bool) -> None:
    alphabet = hostile.atoms(family.literals)
    texts = ["", " ", *(hostile.hostile_text(rng, rng.randrange(1, 60), alphabet) for _ in range(40))]
    texts += [f"x{literal} {literal}\n{literal}" for literal in family.literals]
    for text in texts:
        wanted = family.reference.ids(text, add_special_tokens, split_special_tokens)
        found = family.engine.encode(
            text, add_special_tokens=add_special_tokens, split_special_tokens=split_special_tokens
        )
        assert shared_data.difference(found.tolist(), wanted) == "", repr(text[:2000])


def test_decode_gives_the_text_back(family: Family, rng: random.Random) -> None:
    text = transcripts.source_text(3_000, seed=rng.randrange(1 << 30))
    ids = family.engine.encode(text).tolist()
    assert family.engine.decode(ids) == text
    assert family.engine.decode([]) == ""


@pytest.mark.parametrize("path", shared_data.multi_texts(), ids=lambda path: path.stem)
def test_multi(family: Family, path: object, rng: random.Random, effort: float, request: pytest.FixtureRequest) -> None:
    """Each text of ../shared/data/multi: slices of it, or with --full all of it in stretches."""
    from pathlib import Path

    assert isinstance(path, Path)
    text = shared_data.read_text(path)
    if request.config.getoption("--full"):
        for start in range(0, len(text), 200_000):
            assert_same(family, text[start : start + 200_000])
        return
    for _ in range(2):
        start = rng.randrange(max(1, len(text) - SLICE_CHARS))
        assert_same(family, text[start : start + int(SLICE_CHARS * effort)])


def test_reference_families_answer(reference_family: Family, rng: random.Random) -> None:
    """A tokenizer that is not compiled gives the reference's answers behind the same face."""
    alphabet = hostile.atoms(reference_family.literals)
    for _ in range(20):
        text = hostile.hostile_text(rng, 40, alphabet)
        ids, offsets = reference_family.reference.ids_and_offsets(text)
        assert reference_family.engine.encode(text).tolist() == ids
        assert [tuple(span) for span in reference_family.engine.offsets(text).tolist()] == offsets
        session = reference_family.engine.session()
        session.append(text[: len(text) // 2])
        session.append(text[len(text) // 2 :])
        assert session.ids().tolist() == ids
