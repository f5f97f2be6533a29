"""The comparison is tried itself: each kind of wrong answer is told, and what is handed back is counted by kind."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import shared_data
from support.references import HuggingFace
from support.synthetic import added, description, split
from tokseam.kernels.cuda import plan

from . import cases
from .cases import subject_of
from .comparison import Asked, Subject
from .device import Encoded, Kernels

DESCRIBED = description(
    [split(r"\p{L}+|\s+|\p{N}")],
    merges=[("a", "b"), (" ", " ")],
    added_tokens=[added("<s>", 300)],
    normalizer={"type": "NFC"},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "tokenizer.json"
    target.write_text(json.dumps(DESCRIBED), encoding="utf-8")
    return target


@pytest.fixture
def small(path: Path, kernels: Kernels) -> Subject:
    found = subject_of(path, kernels)
    assert found is not None
    return found


def test_counts(small: Subject) -> None:
    """What is compared with what; what is handed back, and why."""
    recorded = small.reference.ids("ab<s>ab")
    batch = [
        Asked("plain", "ab<s>ab", recorded=recorded),
        Asked("split", "ab<s>ab", split_special_tokens=True),
        Asked("around", "ab", add_special_tokens=True),
        Asked("long", "ab " * 5_000),
        Asked("suspect", "e\u0301"),
        Asked("surrogate", "a\ud800"),
    ]
    small.check(batch, seed=3)
    assert small.differences == []
    assert small.counts == {
        **{"batches": 1, "documents": 6, "bytes": sum(len(one.utf8) for one in batch)},
        **{"ids_as_recorded": 1, "ids_by_reference": 4, "ids_by_engine": 5, "ids_by_engine_alone": 1},
        **{"pieces_by_engine": 3, "pieces_by_reference": 3, "normalized": 1, "bad_text": 1},
    }


class Wrong(HuggingFace):
    """A reference that is right but for one answer."""

    def ids(self, text: str, add_special_tokens: bool = False, split_special_tokens: bool = False) -> list[int]:
        found = super().ids(text, add_special_tokens, split_special_tokens)
        return [*found, 7] if text == "ids" else found

    def pieces(self, text: str, split_special_tokens: bool = False) -> list[int]:
        found = super().pieces(text, split_special_tokens)
        return [*found, len(text)] if text == "pieces" else found


def test_each_difference_is_told(small: Subject, path: Path) -> None:
    asked = Asked("here", "ab ab")
    small.check([replace(asked, recorded=[1, 2])])
    assert "here" in small.differences[-1]
    assert "as_recorded" in small.differences[-1]
    small.reference = Wrong(path.read_bytes())
    for text in ("ids", "pieces"):
        small.check([asked, Asked("there", text)])
        assert f"{text} by" in small.differences[-1].replace("_", " ")
        assert "there" in small.differences[-1]
    assert len(small.differences) == 3


def test_a_flag_without_a_reason_is_told(small: Subject) -> None:
    small.normalizes = False
    small.check([Asked("here", "e\u0301")])
    assert "suspect" in small.differences[0]


def test_a_batch_is_refused_or_not_as_it_must(small: Subject) -> None:
    batch = [Asked("one", "ab"), Asked("two", "ab")]
    small.refuses(batch, plan.Capacity(3, 8, 8))
    assert small.differences == []
    small.refuses(batch, plan.Capacity(4, 8, 8))
    small.check(batch, plan.Capacity(4, 8, 1))
    assert len(small.differences) == 2
    assert small.counts["refused"] == 2


@pytest.mark.skipif(not shared_data.text_cases(), reason="../shared/data/cases is not on this machine")
@pytest.mark.parametrize("broken", [False, True])
def test_the_program(path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    """One run over a folder: its record, and its exit status."""
    asked = [Asked("here", "ab ab"), Asked("there", "1 <s>")]
    monkeypatch.setattr(cases, "table", lambda _name: asked)
    monkeypatch.setattr(cases, "shapes", lambda _literals: asked[:1])
    if broken:
        real = Subject.check

        def check(self: Subject, batch: Any, *arguments: Any, **named: Any) -> Encoded:
            return real(self, [replace(one, recorded=[1]) for one in batch], *arguments, **named)

        monkeypatch.setattr(Subject, "check", check)
    (path.parent / "other.json").write_text(json.dumps(DESCRIBED | {"normalizer": {"type": "StripAccents"}}))
    target = path.parent / "run.record"
    command = ["cases", "--folder", str(path.parent), "--largest", "1", "--json", str(target)]
    monkeypatch.setattr(sys, "argv", command)
    assert cases.main() == int(broken)
    record = json.loads(target.read_text())
    assert record["tokenizers"] == 1
    assert record["not_native"] == ["other"]
    assert record["parts"]["table"]["documents"] == 2
    assert record["parts"]["shapes"]["documents"] == 1
    assert record["differences"] == (3 if broken else 0)
    assert len(record["runs"][0]["differences"]) == record["differences"]
    monkeypatch.setattr(sys, "argv", [*command, "--append"])
    assert cases.main() == int(broken)
    assert json.loads(target.read_text()) == record, "nothing is left to do"
