"""`python -m bench fresh-path` on tiers of its own, in small: every row comes, and says who encoded what."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tokseam.broker.state import Limits
from tokseam.scripts import tokenizer_catalogue

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import fresh_path

TOKENIZER = "deepseek_v4"

pytestmark = pytest.mark.skipif(tokenizer_catalogue.find(TOKENIZER) is None, reason=f"no copy of {TOKENIZER}")


def record_of(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    target = tmp_path / "record.json"
    done = CliRunner().invoke(
        fresh_path.main, ["--tokenizer", TOKENIZER, "--json", str(target), *arguments], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    record: dict[str, Any] = json.loads(target.read_text())
    return record


@pytest.mark.slow
def test_starts_side_by_side(tmp_path: Path) -> None:
    sizes = (2_048, 65_536)
    record = record_of(tmp_path, "--only", "starts", "--bytes", "1", *(f"--size={size}" for size in sizes))
    assert "appends_under_load_us" not in record
    assert [row["bytes"] for row in record["starts_us"]] == list(sizes)
    for row in record["starts_us"]:
        assert row["texts"] == fresh_path.TEXTS[0]
        assert row["owner"]["given_to_fresh_worker"] == 0
        assert 0 < row["fresh"]["given_to_fresh_worker"] <= row["texts"]
        for path in fresh_path.THRESHOLDS:
            for step in ("start", "append"):
                assert row[path][step]["count"] == row["texts"]
                assert 0 < row[path][step]["minimum"] <= row[path][step]["p50"]
    assert record["crossover_bytes"] == fresh_path.crossover(record["starts_us"])
    assert record["default_threshold_bytes"] == Limits().fresh_bytes


@pytest.mark.slow
def test_appends_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_path, "LOAD_CHARS", 20_000)
    monkeypatch.setattr(fresh_path, "CONTEXT_CHARS", 10_000)
    record = record_of(tmp_path, "--only", "appends", "--appends", "20")
    assert "starts_us" not in record
    for spread in record["appends_under_load_us"].values():
        assert spread["count"] == 20
        assert spread["minimum"] > 0


@pytest.mark.parametrize(
    ("owner", "fresh", "wanted"),
    [
        ((1.0, 2.0, 4.0), (2.0, 2.0, 3.0), 2),
        ((1.0, 2.0, 4.0), (0.5, 3.0, 3.0), 4),  # a small size that is quicker by itself says nothing
        ((1.0, 2.0, 4.0), (0.5, 1.0, 3.0), 1),
        ((1.0, 2.0, 4.0), (0.5, 1.0, 5.0), None),
    ],
)
def test_crossover(owner: tuple[float, ...], fresh: tuple[float, ...], wanted: int | None) -> None:
    rows = [
        {"bytes": size, "owner": {"start": {"p50": one}}, "fresh": {"start": {"p50": other}}}
        for size, one, other in zip((1, 2, 4), owner, fresh, strict=True)
    ]
    assert fresh_path.crossover(rows) == wanted
    assert fresh_path.crossover(rows[::-1]) == wanted
