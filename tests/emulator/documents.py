"""Documents for the kernels, drawn at random: texts built to hurt, code, prose, pieces at every border between kernels,
pieces and stretches without an end."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from support import hostile, shared_data
from tokseam.kernels.cuda import plan
from tokseam.scripts import transcripts

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import hostile_texts as hostile_texts

#: Sizes in bytes at which another kernel takes over, or one of its loops turns.
BORDERS = (
    *(1, 7, 8, 16, plan.THREAD_BYTES, 64, plan.WARP_BYTES, plan.TILE_BYTES, 2 * plan.TILE_BYTES),
    *(plan.WINDOW_BYTES, 2 * plan.WINDOW_BYTES, 3 * plan.WINDOW_BYTES),
)

#: Characters of one to four bytes that make long pieces: letters, marks, digits, signs, spaces, CJK, letters beyond.
LONG_CHARACTERS = ("a", "e", "1", "=", " ", "\n", "é", "ж", "\u0301", "中", "ก", "\u3000", "😀", "\U00010400")


@cache
def _prose() -> tuple[str, ...]:
    return tuple(shared_data.read_text(path)[:200_000] for path in shared_data.multi_texts())


def border_text(rng: random.Random) -> str:
    """Return a text that is one byte short of a border, just it, or one more; often with something on either side."""
    size = rng.choice(BORDERS) + rng.choice((-1, 0, 1))
    few = rng.sample(LONG_CHARACTERS, rng.choice((1, 1, 2, 4)))
    text = ""
    while len(text.encode()) < size:
        text += rng.choice(few)
    text = text.encode()[: max(size, 1)].decode(errors="ignore")
    return rng.choice(("", "", " ", "x", "\n", "1")) + text + rng.choice(("", "", " y", "\n", "!"))


def periodic_text(rng: random.Random) -> str:
    """Return a text whose tokens' lengths fit no window: their seams can't all be joined side by side."""
    unit = "".join(rng.choices("ab=- 1中é", k=rng.choice((1, 2, 3, 5, 7, 11))))
    return rng.choice(("", "x", "ab ")) + unit * rng.randrange(1, 4_000 // len(unit.encode()))


def text(rng: random.Random, alphabet: list[str], literals: Sequence[str] = ()) -> str:
    """Return one document."""
    kind = rng.random()
    if kind < 0.45:
        return hostile.hostile_text(rng, rng.randrange(0, 40), alphabet)
    if kind < 0.60:
        source = rng.choice(transcripts.source_texts())
        at = rng.randrange(len(source))
        return source[at : at + rng.choice((1, 10, 100, 1_000))]
    if kind < 0.75 and _prose():
        prose = rng.choice(_prose())
        at = rng.randrange(len(prose))
        return prose[at : at + rng.choice((1, 10, 100, 1_000))]
    if kind < 0.90:
        return border_text(rng)
    if kind < 0.95:
        return periodic_text(rng)
    return hostile_texts.make(
        rng.choice(list(hostile_texts.KINDS)), rng.randrange(200, 3_000), rng.randrange(9), literals
    )


def batch(rng: random.Random, alphabet: list[str], literals: Sequence[str], count: int) -> list[str]:
    """Return `count` documents, some of them empty or equal to others."""
    texts = [text(rng, alphabet, literals) if rng.random() > 0.03 else "" for _ in range(count)]
    if count > 3 and rng.random() < 0.2:
        texts[rng.randrange(count)] = texts[0]
    return texts


def at_every_border() -> list[str]:
    """Return pieces and stretches of every size around a border, of characters of each width, in random order."""
    texts = []
    for size in BORDERS:
        for char in ("a", "é", "中", "\U00010400", " ", "=", "1"):
            width = len(char.encode())
            texts += [char * count for count in {max(1, (size + more) // width) for more in (-1, 0, 1)}]
        texts += ["".join(random.Random(size).choices("abcdefgh", k=size + more)) for more in (-1, 0, 1)]
    random.Random(5).shuffle(texts)
    return texts


def with_unsettled_seams() -> list[str]:
    """Return texts whose periods fit no window."""
    units = ("abcde", "-=-+-", "no way ", "x" * 11 + "y", "01", "的中文")
    texts = [unit * (6_000 // len(unit.encode())) for unit in units]
    return texts + [lead + "a" * 5_000 for lead in ("b", "bc", " b")]


def hostile_shapes(literals: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """Return every hostile shape in so many bytes each, or a few less where its characters are wider."""
    texts = []
    for kind in hostile_texts.KINDS:
        for size in sizes:
            text = hostile_texts.make(kind, max(size, 1), 0, literals)
            texts.append(text.encode()[:size].decode(errors="ignore"))
    return texts
