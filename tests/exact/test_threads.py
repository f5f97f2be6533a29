"""A text encoded on several threads has the ids of one thread: its parts meet at synchronizing positions."""

from __future__ import annotations

import random

import pytest
from support.families import Family
from tokseam.client import Embedded
from tokseam.client.errors import BadRequestError

#: Long enough for several parts of 64 KiB.
PARAGRAPHS = [
    "def part(text: str) -> list[int]:\n    return [ord(c) for c in text if c not in '<|end|>']\n\n",
    "It's 3,141 words; don't count them...  \t\n\n   \u00a0 e\u0301\u0327 \u1112\u1161\u11ab <|im_end|>\n",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u51fa\u53bb\u8d70\u8d70\u3002\U0001f468\u200d\U0001f469 ",
    "x" * 700 + "\n" + "\u4e00\u4e8c\u4e09" * 200,
]


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
