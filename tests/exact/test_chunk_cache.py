"""Chunks of text that came before are recognised: the ids stay those of a tokenizer that recognises nothing."""

from __future__ import annotations

import random

import pytest
from support.families import Family
from support.hostile import PARAGRAPHS
from tokseam.client import Embedded
from tokseam.client.errors import BadRequestError
from tokseam.kernels import engine


def test_recognised_chunks_change_nothing(family: Family) -> None:
    loaded = family.engine
    rng = random.Random(f"chunks {family.name}")
    passages = ["".join(rng.choices(PARAGRAPHS, k=300)) for _ in range(3)]
    texts: list[str] = []
    for _ in range(12):
        text = "".join(rng.choices(passages, k=rng.randint(1, 3)))
        at = rng.randrange(len(text))
        texts += [text, "A new beginning.\n" + text, text[:at], text[:at] + "\u0327 and on " + text[at:]]
    try:
        loaded.bound_chunk_cache(0)
        expected = {text: loaded.encode(text).tolist() for text in texts}
        assert loaded.chunk_cache_bytes == 0
        loaded.bound_chunk_cache(500_000)
        for text in texts + rng.sample(texts, 12):
            assert loaded.encode(text, threads=rng.randint(1, 2)).tolist() == expected[text]
            assert loaded.chunk_cache_bytes <= 500_000
        if loaded.status == "native":
            assert loaded.chunk_cache_bytes > 0, "something was kept"
            special = loaded.encode(texts[0], split_special_tokens=True).tolist()
            loaded.bound_chunk_cache(0)
            assert loaded.encode(texts[0], split_special_tokens=True).tolist() == special
    finally:
        loaded.bound_chunk_cache(engine.CHUNK_CACHE_BYTES)


def test_sessions_that_begin_with_what_is_known(family: Family) -> None:
    loaded = family.engine
    rng = random.Random(f"sessions {family.name}")
    passage = "".join(rng.choices(PARAGRAPHS, k=400))
    try:
        loaded.bound_chunk_cache(0)
        loaded.bound_chunk_cache(engine.CHUNK_CACHE_BYTES)
        for begin in (passage, passage, passage[: len(passage) // 2] + "\u0327 and on", passage, passage):
            session = loaded.session()
            splice = session.reset(begin)
            text = begin
            assert splice.ids.tolist() == session.ids().tolist() == family.reference.ids(text)
            assert session.work == ("fresh" if loaded.status == "native" else "reference", len(text))
            for _ in range(6):
                at = rng.randrange(len(text) + 1)
                stop = min(len(text), at + rng.randrange(40))
                new = rng.choice(PARAGRAPHS)[: rng.randrange(60)]
                session.edit(at, stop, new)
                text = text[:at] + new + text[stop:]
            session.append(passage[:5_000])
            text += passage[:5_000]
            assert session.text() == text
            assert session.ids().tolist() == family.reference.ids(text)
    finally:
        loaded.bound_chunk_cache(engine.CHUNK_CACHE_BYTES)


@pytest.mark.parametrize("most", [-1, True, 1.5, "2"])
def test_a_bad_bound_is_named(most: object) -> None:
    with pytest.raises(BadRequestError, match="chunk_cache_bytes"):
        Embedded({}, chunk_cache_bytes=most)  # type: ignore[arg-type]


def test_the_bound_reaches_each_tokenizer(family: Family) -> None:
    text = "".join(PARAGRAPHS) * 60
    try:
        for most, kept in ((0, False), (engine.CHUNK_CACHE_BYTES, family.engine.status == "native")):
            tier = Embedded({"one": family.engine}, chunk_cache_bytes=most)
            ids = [tier.encode(text, "one") for _ in range(3)]
            assert ids[0] == ids[1] == ids[2]
            assert (tier.stats()["chunk_cache_bytes"] > 0) is kept
    finally:
        family.engine.bound_chunk_cache(0)
        family.engine.bound_chunk_cache(engine.CHUNK_CACHE_BYTES)
