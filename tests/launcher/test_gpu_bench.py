"""`python -m bench gpu` over a device that is none: every row comes, the budget is kept, wrong ids stop it."""

from __future__ import annotations

import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import description, native, split
from tokseam.kernels import engine
from tokseam.kernels.cuda.launcher import Launcher

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import gpu

from .fake_cupy import Fake


@pytest.fixture(scope="module")
def tokenizer() -> engine.Tokenizer:
    return native(description([split(r"\p{L}+|\s+|[^\s\p{L}]+")], merges=[("a", "b"), ("e", "r"), (" ", " ")]))[0]


class Clock:
    """Time that passes a second a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_every_row_comes(fake: Fake, launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    launcher._device.name = "NVIDIA H200"
    bench = gpu.Bench(launcher, tokenizer, [], gpu.Budget(600), scale=0.002)
    rows = list(gpu.measured(bench, None))
    kinds = [row["what"] for row in rows]
    assert kinds.count("single") == len(gpu.SINGLE)
    assert kinds.count("batch") + sum("batches" in what for what in bench.budget.left_out) == len(gpu.BATCH_KINDS)
    assert kinds.count("small documents") == 1
    assert kinds.count("load") == 2
    assert kinds.count("kernel") > 20
    assert kinds == sorted(kinds, key=list(dict.fromkeys(kinds)).index)
    for row in rows:
        if row["what"] in ("single", "batch"):
            assert 0 < row["pre_tokenization_ms"] < row["kernels_ms"]
            assert 0 < row["floor_kernels_ms"] < row["floor_request_ms"]
        assert all(value is not None for value in row.values())
    json.dumps(rows)
    assert {table.title for table in gpu.tables(rows)} == set(kinds)
    assert launcher.counters.left == 0


def test_wrong_ids_are_found(
    fake: Fake, launcher: Launcher, tokenizer: engine.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def off_by_one(self: engine.Tokenizer, text: bytes, **mode: Any) -> np.ndarray[Any, Any]:
        return right(self, text, **mode) + 1

    right = engine.Tokenizer.encode
    monkeypatch.setattr(engine.Tokenizer, "encode", off_by_one)
    bench = gpu.Bench(launcher, tokenizer, [], gpu.Budget(600), scale=0.001)
    with pytest.raises(gpu.WrongIdsError):
        list(bench.single())


def test_the_budget_is_kept(fake: Fake, launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    budget = gpu.Budget(5, Clock())
    bench = gpu.Bench(launcher, tokenizer, [], budget, scale=1)
    assert list(bench.batches()) == []
    assert budget.left_out == [f"batches of {kind}" for kind in gpu.BATCH_KINDS]


def test_toktier_is_left_out_where_it_is_not(fake: Fake, launcher: Launcher, tokenizer: engine.Tokenizer) -> None:
    from bench import subjects

    bench = gpu.Bench(launcher, tokenizer, [], gpu.Budget(600), scale=0.001)
    assert list(bench.toktier(subjects.Subject("nobody's", Path("/nowhere/tokenizer.json")))) == []
    assert bench.budget.left_out[0].startswith("toktier (")


def test_busy_processes_end() -> None:
    with gpu.busy_processes(2):
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(("card", "name"), [("NVIDIA H200", "gpu-nvidia-h200.json"), ("A/B c!", "gpu-a-b-c.json")])
def test_where_a_record_lies(card: str, name: str) -> None:
    assert gpu.record_path(card).name == name
