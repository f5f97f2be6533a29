"""A session that is seeded with ids and marks made elsewhere is the one that would have encoded its text itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support import hostile
from support.families import Family
from support.histories import Mirror, random_history
from support.hostile import PARAGRAPHS
from tokseam.kernels import engine
from tokseam.kernels.errors import BadSeedError, BadTextError, UnsupportedError


def seeded(family: Family, text: str, flags: tuple[bool, bool] = (False, False), threads: int = 1) -> Mirror:
    """Return a seeded session that is what the native store calls sound, and not yet compared with the reference."""
    named = {"add_special_tokens": flags[0], "split_special_tokens": flags[1]}
    marked = family.engine.encode_marked(text, **named, threads=threads)
    session = family.engine.seeded_session(text, marked, **named)
    session.validate()  # type: ignore[attr-defined]
    return Mirror(session, family.reference, text, marked.ids.tolist(), flags, f"seed({text[:200]!r})")


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)], ids=["plain", "add", "split"])
def test_seeded_sessions_live_on(family: Family, rng: random.Random, effort: float, flags: tuple[bool, bool]) -> None:
    alphabet = hostile.atoms(family.literals)
    for _ in range(int(8 * effort)):
        mirror = seeded(family, hostile.hostile_text(rng, rng.choice((0, 1, 5, 60, 400)), alphabet), flags)
        mirror.check()
        assert mirror.session.work == engine.Work("fresh", 0)
        random_history(rng, mirror, 8, alphabet)


def test_threads_mark_the_same(family: Family) -> None:
    rng = random.Random(family.name)
    text = "".join(rng.choices(PARAGRAPHS, k=1500))
    alone = family.engine.encode_marked(text)
    assert alone.ids.tolist() == family.engine.encode(text).tolist()
    for threads in (2, 3, 7):
        found = family.engine.encode_marked(text, threads=threads)
        assert all(np.array_equal(one, other) for one, other in zip(alone, found, strict=True))
    one_piece = "a" * 300_000
    assert seeded(family, one_piece, threads=4).ids == family.engine.encode(one_piece).tolist()


def test_what_is_no_seed_is_refused(family: Family) -> None:
    loaded = family.engine
    text = "Some words, 12345 of them.\n" * 200
    marked = loaded.encode_marked(text)
    assert len(marked.cuts) > 2
    nothing = np.empty(0, dtype=np.uint32)
    session = loaded.session()
    session.reset("as it was")
    for bad in (
        marked._replace(marks=marked.marks[:-1]),
        marked._replace(marks=marked.marks[::-1].copy()),
        marked._replace(cuts=marked.cuts[::-1].copy()),
        marked._replace(cuts=marked.cuts + np.uint32(len(text.encode()))),
        marked._replace(ids=marked.ids[:3]),
    ):
        with pytest.raises(BadSeedError):
            session.seed(text, bad)  # type: ignore[attr-defined]
        assert session.text() == "as it was"
    with pytest.raises(BadSeedError):
        loaded.seeded_session("", engine.Marked(marked.ids, nothing, nothing))
    with pytest.raises(BadTextError):
        loaded.encode_marked("a\ud800")
    with pytest.raises(BadTextError):
        loaded.seeded_session(b"a\xff", marked)


def test_the_reference_takes_none(reference_family: Family) -> None:
    with pytest.raises(UnsupportedError):
        reference_family.engine.encode_marked("text")
    nothing = np.empty(0, dtype=np.uint32)
    with pytest.raises(UnsupportedError):
        reference_family.engine.seeded_session("", engine.Marked(nothing, nothing, nothing))
