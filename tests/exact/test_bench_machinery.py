"""The bench's own machinery: processes that end badly, cold and warm loads, memory counted, rows of the real cases."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tokseam.scripts import tokenizer_catalogue
from tokseam.scripts.tokenizer_catalogue import name_shared_folder, shared_folder

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench import job, long_appends, marking, peers, process_memory, report, subjects, verify_all
from bench.case import Options
from bench.cases import append, edit, fresh, hostile, load, memory

TOKENIZER = "deepseek_v4"

pytestmark = pytest.mark.skipif(tokenizer_catalogue.find(TOKENIZER) is None, reason=f"no copy of {TOKENIZER}")


def test_a_peer_that_takes_the_process_down_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []

    def run(_case: str, what: dict[str, Any], answer: Path, mark: Path, _limit: float) -> str:
        given.append(dict(what.get("without", {})))
        if "kitoken" in what.get("without", {}):
            answer.write_text(json.dumps([{"fine": True}]))
            return ""
        mark.write_text("kitoken")
        return "exit code -11\nSegmentation fault"

    monkeypatch.setattr(job, "_run", run)
    assert job.start("fresh", {"peers": ["tokie", "kitoken"]}) == [{"fine": True}]
    assert given[0] == {}
    assert "exit code -11" in given[1]["kitoken"]


def test_a_call_without_an_end_is_ended_and_named(tmp_path: Path) -> None:
    """The real thing: a child whose call sleeps is ended by its own alarm, and the mark names who was at work."""
    mark = tmp_path / "mark"
    program = (
        "import sys, time; from pathlib import Path; from bench import marking; marking.CALL_LIMIT_S = 0.2; "
        "marking.to(Path(sys.argv[1]))\n"
        "with marking.at_work('quick'): pass\n"
        "time.sleep(0.4)\n"
        "with marking.at_work('slow'): time.sleep(60)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program, str(mark)], cwd=root, check=False, timeout=30)
    assert mark.read_text() == "slow"
    assert "no answer within" in marking.in_words(done.returncode)


def test_a_job_that_fails_by_itself_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_run", lambda *_: "exit code 1\nValueError: no such text")
    with pytest.raises(job.JobError, match="no such text"):
        job.start("fresh", {"peers": ["tokie"]})


@pytest.mark.slow
def test_fresh_rows_in_a_process_of_their_own() -> None:
    (todo,) = fresh.jobs(
        Options(tokenizers=(TOKENIZER,), peers=("tokenizers",), texts=("code",), sizes=(1_000,), cores=(1,), quick=True)
    )
    rows = job.start("fresh", todo)
    assert [row["column"] for row in rows] == list(fresh.COLUMNS)
    for row in rows:
        assert len(row["pinned"]) == 1
        for name in (peers.OURS, "tokenizers"):
            assert row["peers"][name]["differs"] == ""
            assert row["peers"][name]["us"]["p50"] > 0
    assert rows[0]["same_kind_chars_before"] == 0, "fresh text comes first"
    assert rows[1]["same_kind_chars_before"] >= fresh.PREWARM_CHARS
    assert report.our_ratio(rows[0]) is not None
    assert len(fresh.tables(rows)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", [append, edit])
def test_changes_are_timed_and_compared(case: Any) -> None:
    todo = case.jobs(Options(tokenizers=(TOKENIZER,), peers=("tokenizers",), sizes=(30_000,), quick=True))[0]
    todo |= {"deltas": [16, 1_400], "rounds": 6}
    rows = case.run(todo)
    assert [row["delta"] for row in rows] == [16, 1_400]
    for row in rows:
        ours = [name for name in row["peers"] if name.startswith(peers.OURS)]
        assert len(ours) == 4, "embedded and by a broker, each in two ways"
        for name in (*ours, "tokenizers"):
            assert row["peers"][name].get("missing") is None
            assert row["peers"][name]["differs"] == ""
            assert row["peers"][name]["us"]["count"] > 0
    assert len(case.tables(rows)) == 2


@pytest.mark.slow
def test_long_appends_are_timed_and_compared() -> None:
    options = Options(tokenizers=(TOKENIZER,), long=True, quick=True, sizes=(30_000,), texts=(long_appends.SESSIONS,))
    (todo,) = append.jobs(options)
    assert (append.estimate_s(todo) or 0) > long_appends.READY_S
    todo["rounds"] = {peers.OURS: 50, long_appends.BROKER: 20}
    (row,) = append.run(todo)
    for way, count in ((peers.OURS, 60), (long_appends.BROKER, 20)):
        assert row["peers"][way]["differs"] == ""
        assert row["peers"][way]["us"]["count"] == count, "whole runs"
    (table,) = append.tables([row])
    assert table.row_count == 2
    assert append.tables([{**row, "peers": {}, "none": "too little text"}])[0].row_count == 0


def test_long_appends_append_the_same_at_every_context_and_see_a_wrong_id() -> None:
    source = "".join(chr(97 + number % 23) for number in range(20_000))
    subject = subjects.load(TOKENIZER)
    beds = [long_appends.Bed(subject, source[:chars], source) for chars in (100, 5_000)]
    runs = [list(islice(bed.runs(7), 2)) for bed in beds]
    assert runs[0] == runs[1]
    assert {len(delta) for _, deltas in runs[0] for delta in deltas} == {long_appends.DELTA}

    class Wrong:
        """A tier whose every append makes one id of all that it gets."""

        def session(self, *_: object, **__: object) -> Wrong:
            return self

        def fork(self, _name: str) -> Wrong:
            return self

        def append_patch(self, _delta: str) -> Any:
            return argparse.Namespace(start=0, stop=0, ids=[0])

        def __enter__(self) -> Wrong:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    assert "differs at id 0" in beds[0].measured(Wrong(), 1)["differs"]


def test_hostile_rows() -> None:
    todo = hostile.jobs(
        Options(tokenizers=(TOKENIZER,), peers=("tokenizers",), texts=("spaces",), sizes=(2_000, 8_000))
    )[0]
    rows = hostile.run(todo)
    assert [row["chars"] for row in rows] == [2_000, 8_000]
    assert all(found["differs"] == "" for row in rows for found in row["peers"].values())
    assert hostile.exponent(rows, peers.OURS) is not None


def test_load_cold_and_warm() -> None:
    path = subjects.load(TOKENIZER).json_path()
    todo = {"tokenizer": TOKENIZER, "many": False, "peers": ["tokenizers"], "cores": 1, "repeats": 2}
    (row,) = load.run(todo)
    assert row["runs"] == 2
    assert row["memory"]["pss"] > path.stat().st_size / 1024**2, "it holds more than its file"
    assert row["import_seconds"] > 0
    assert row["load_seconds"] > 0
    assert row["import_seconds"] + row["load_seconds"] < 2 * row["seconds"], "of medians, each a part of the whole"
    assert load.tables([row])[0].row_count == 1


def test_load_names_what_it_cannot_load(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    (answer,) = load._together("tokenizers", [broken], tmp_path / "cache", 1)
    assert "broken.json: cannot load" in answer["missing"]


def test_memory_counts_sessions_and_forgets_closed_ones() -> None:
    rows = memory.run({"tokenizer": TOKENIZER, "checkpoints": [20_000, 60_000], "fork_tokens": 20_000, "cores": 1})
    growing = [row for row in rows if row["what"].startswith("growing")]
    assert growing[0]["session_bytes"] < growing[1]["session_bytes"]
    assert all(row["session_bytes"] == 0 for row in rows if row["what"] == "closed")
    forked = [row for row in rows if row["forks"]]
    assert all(row["forks"] == memory.FORKS for row in forked)
    parent = next(row for row in rows if row["what"] == "parent")
    more = forked[0]["rss_more_bytes"] - parent["rss_more_bytes"]
    assert more < memory.FORKS * parent["session_bytes"] / 4, "forks share what is equal"


def test_memory_of_this_process() -> None:
    before = process_memory.now()
    held = bytearray(64 * 1024**2)
    more = process_memory.now().minus(before)
    assert len(held) > 0
    assert more.rss > 48
    assert more.pss > 48


def test_shared_data_is_looked_for_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folder() -> Path:
        parser = argparse.ArgumentParser()
        verify_all.add_folder(parser)
        found: Path = parser.parse_args([]).folder
        return found

    shared = tmp_path / "shared"
    monkeypatch.setenv("TOKSEAM_SHARED", str(shared))
    assert shared_folder() is None
    with pytest.raises(SystemExit):
        folder()
    (shared / "data" / "multi").mkdir(parents=True)
    assert folder() == shared / "data" / "tokenizers"
    assert verify_all.default_corpus() == shared / "data" / "multi"
    # Beside a checkout it is found without a name; one that is named is left alone.
    name_shared_folder(tmp_path / "elsewhere" / "checkout")
    assert shared_folder() == shared
    monkeypatch.setenv("TOKSEAM_SHARED", "")
    name_shared_folder(tmp_path / "checkout")
    assert os.environ["TOKSEAM_SHARED"] == str(shared)
    assert folder() == shared / "data" / "tokenizers"
