"""A text encoded on several threads has the ids of one thread: its parts meet at synchronizing positions."""

from __future__ import annotations

import random

import pytest
from support.families import Family
from support.hostile import PARAGRAPHS
from tokseam.client import Embedded
from tokseam.client.errors import BadRequestError


def test_threads_change_nothing(family: Family) -> None:
    loaded = family.engine
    rng = random.Random(family.name)
    text = "".join(rng.choices(PARAGRAPHS, k=1500))
    expected = loaded.encode(text).tolist()
    for threads in (2, 3, 7):
        assert loaded.encode(text, threads=threads).tolist() == expected
    one_piece = "a" * 300_000
    assert loaded.encode(one_piece, threads=4).tolist() == loaded.encode(one_piece).tolist()


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_a_bad_number_of_threads_is_named(threads: object) -> None:
    with pytest.raises(BadRequestError, match="threads"):
        Embedded({}).encode("text", threads=threads)  # type: ignore[arg-type]
