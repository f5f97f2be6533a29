"""Load from several client processes at once: every answer comes, and every sampled id is the reference's.

How fast is scripts/replay_bursts's and the benches' matter; machines that run tests differ too much to judge it here.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer
from tokseam.scripts import replay_bursts
from tokseam.scripts.replay_bursts import KINDS, Load, Report, Sample, check_samples, run_load, schedule
from tokseam.scripts.serve import RunningTier, running_tier
from tokseam.scripts.tokenizer_catalogue import find

LOAD = Load(seconds=4, rate=120, burst=8, fresh_share=0.05, sessions=6, clients=3, sample=15, seed=1)


@pytest.fixture(scope="module")
def tokenizer() -> Path:
    path = find("deepseek_v4")
    assert path is not None  # a test dependency
    return path


@pytest.fixture(scope="module")
def tier(tokenizer: Path) -> Iterator[RunningTier]:
    with tempfile.TemporaryDirectory(prefix="tokseam-") as folder:
        arguments = ["--validate"]
        with running_tier({"ds": tokenizer}, endpoint=f"ipc://{folder}/front.sock", arguments=arguments) as running:
            yield running


def test_bursts_from_three_processes(tier: RunningTier, tokenizer: Path) -> None:
    report = run_load(tier.endpoint, tokenizer, LOAD)
    planned = Counter(arrival.kind for client in range(LOAD.clients) for arrival in schedule(LOAD, client))
    assert report.mismatches == []
    assert report.errors == Counter()
    assert report.unanswered == 0
    assert {kind: len(report.latencies[kind]) for kind in KINDS} == planned
    assert report.checked == LOAD.clients * LOAD.sample


def test_the_command_ends_well(tier: RunningTier) -> None:
    arguments = ["--endpoint", tier.endpoint, "--seconds", "1", "--rate", "40", "--sessions", "2", "--clients", "2"]
    done = CliRunner().invoke(replay_bursts.main, arguments)
    assert done.exit_code == 0, done.output
    assert "mismatches: 0" in done.output


def test_a_client_that_fails_is_told(tmp_path: Path, tier: RunningTier) -> None:
    other = tmp_path / "tokenizer.json"
    other.write_text("{}")
    with pytest.raises(RuntimeError, match="UnknownTokenizerError"):
        run_load(tier.endpoint, other, replace(LOAD, seconds=0.5))


def test_wrong_ids_are_told(tokenizer: Path) -> None:
    reference = Tokenizer.from_file(str(tokenizer))
    ids = np.array(reference.encode("plain words", add_special_tokens=False).ids, dtype=np.uint32)
    report = Report()
    check_samples([Sample("append", "plain words", ids), Sample("fresh", "plain words", ids + 1)], reference, report)
    assert report.checked == 2
    assert len(report.mismatches) == 1
    assert report.mismatches[0].startswith("fresh on a text of 11 characters")


def test_schedule_is_open_loop_and_bursty() -> None:
    load = replace(LOAD, seconds=200, clients=1)
    arrivals = schedule(load, 0)
    assert arrivals == schedule(load, 0)
    assert arrivals != schedule(load, 1)
    assert [arrival.at for arrival in arrivals] == sorted(arrival.at for arrival in arrivals)
    assert len(arrivals) / load.seconds == pytest.approx(load.rate, rel=0.15)
    gaps = np.diff([arrival.at for arrival in arrivals])
    # Bursty: most arrivals stand close together, and the gaps' spread is far above that of a Poisson stream (1).
    assert float(np.mean(gaps < 2 * replay_bursts.BURST_GAP_S)) > 0.7
    assert float(gaps.std() / gaps.mean()) > 2
    fresh = sum(arrival.kind == "fresh" for arrival in arrivals) / len(arrivals)
    assert fresh == pytest.approx(load.fresh_share, abs=0.02)
