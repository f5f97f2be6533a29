"""The texts and shapes that the bench times are right before anybody times them: small sizes of every case."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import shared_data
from support.families import Family

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import texts

SMALL_CHARS = 3_000
STRETCHES = 3


@pytest.mark.parametrize("kind", texts.KINDS)
def test_text_of_every_kind(family: Family, kind: str) -> None:
    corpus = texts.Corpus(kind, family.literals)
    before = ""
    for _ in range(STRETCHES):
        try:
            text = corpus.take(SMALL_CHARS)
        except texts.ExhaustedError:
            assert not shared_data.multi_texts(), "with ../shared/data every kind has some text"
            pytest.skip(f"no {kind} text on this machine")
        assert len(text) == SMALL_CHARS
        assert text != before, "a stretch is never given twice"
        before = text
        assert shared_data.difference(family.engine.encode(text).tolist(), family.reference.ids(text)) == ""


def test_an_exhausted_corpus_gives_nothing_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(texts.KINDS, "short", ("three words", lambda _literals: iter(["one ", "two ", "three"])))
    corpus = texts.Corpus("short")
    assert corpus.take(5) == "one t"
    with pytest.raises(texts.ExhaustedError, match="8 characters left"):
        corpus.take(9)
    assert corpus.take(8) == "wo three"
