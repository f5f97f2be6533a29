"""A short, deterministic run of the Python fuzz targets; the C++ ones run with the native tests (CMakeLists.txt)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import drive

#: Mutations in a test run: some seconds each.
RUNS = {"wire": 30_000, "compiler": 400}


@pytest.mark.parametrize("name", RUNS)
def test_corpus_regressions_and_mutations(
    name: str, request: pytest.FixtureRequest, effort: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where an input that fails is written
    seed = request.config.getoption("--seed")
    assert drive.inputs(name), "there is a corpus"
    assert drive.fuzz(name, int(RUNS[name] * effort), seed) > 0
