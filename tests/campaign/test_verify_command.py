"""`tokseam verify` from the outside: exit status, JSON, Ctrl-C, resuming; and what the parts of a campaign promise."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from support.synthetic import added, description, split
from tokseam.scripts.verify import seconds
from tokseam.scripts.verify.checks import Tally, check_cuts, check_texts
from tokseam.scripts.verify.corpus import Corpus
from tokseam.scripts.verify.rounds import Rounds
from tokseam.scripts.verify.subject import from_encoding, from_json
from tokseam.scripts.verify.systematic import POSITIONS
from tokseam.scripts.verify.walks import Coverage

WORDS = r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NATIVE = description([split(WORDS)], merges=[("a", "b"), (" ", "a")], added_tokens=[added("<s>", 300)])
CUT_SHORT = {"direction": "Right", "max_length": 1_000_000, "strategy": "LongestFirst", "stride": 0}
BY_REFERENCE = NATIVE | {"truncation": CUT_SHORT}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(NATIVE))
    return path


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tokseam.scripts.cli", "verify", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(*arguments: object) -> tuple[int, str]:
    process = start(*arguments)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def test_a_campaign_reports_and_goes_on(tokenizer: Path, tmp_path: Path) -> None:
    report, state, corpus = tmp_path / "report.json", tmp_path / "state", tmp_path / "texts"
    corpus.mkdir()
    (corpus / "a.txt").write_text("some text of one's own, 12345\n" * 50)
    fixed = ("--tokenizer", tokenizer, "--corpus", corpus, "--resume", state, "--json", report, "--workers", 2)
    status, output = run(*fixed, "--budget", "2s")
    assert status == 0, output
    assert "no divergence" in output
    first = json.loads(report.read_text())
    assert first["status"] == "native"
    assert all(first["checks"][kind] > 0 for kind in ("boundaries", "ids", "offsets", "cuts"))
    assert first["coverage"]["pairs"][0] > 0
    status, output = run(*fixed, "--budget", "2s")
    assert status == 0, output
    second = json.loads(report.read_text())
    assert second["rounds"] > first["rounds"]
    assert second["checks"]["total"] > first["checks"]["total"]
    status, output = run(*fixed, "--budget", "2s", "--seed", 9)
    assert status == 2, "a state file of another seed is not gone on from"
    assert "another tokenizer, seed" in output


def test_ctrl_c_ends_with_a_report(tokenizer: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    process = start("--tokenizer", tokenizer, "--budget", "10m", "--json", report, "--workers", 2)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    found = json.loads(report.read_text())
    assert found["interrupted"]
    assert found["checks"]["total"] > 0
    assert found["seconds"] < 60


def test_a_tokenizer_of_the_reference_says_so(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(BY_REFERENCE))
    assert not from_json("t", path.read_bytes()).native
    status, output = run("--tokenizer", path, "--budget", "1s", "--workers", 1)
    assert status == 0, output
    assert "the reference answers for it" in output


@pytest.mark.parametrize("arguments", [("--tokenizer", "none.json"), ("--tokenizer", "tiktoken:none"), ()])
def test_what_cannot_be_verified(arguments: tuple[str, ...], tokenizer: Path) -> None:
    status, output = run(*arguments)
    assert status == 2
    assert "--tokenizer" in output


def test_a_bad_budget(tokenizer: Path) -> None:
    for text in ("", "m", "ten", "1m2h", "-3s"):
        with pytest.raises(click.BadParameter):
            seconds(text)
    assert seconds("1h30m") == 5400
    assert seconds("1m5.5s") == 65.5


def test_rounds_depend_on_their_number_alone() -> None:
    subject = from_json("t", json.dumps(NATIVE).encode())
    counted: list[list[dict[str, int]]] = []
    for order in (range(8), reversed(range(8))):
        rounds, done = Rounds(subject, Corpus(None), 3), {}
        for number in order:
            tally = Tally()
            assert rounds.run(number, tally, Coverage(subject.compiled)) is None
            done[number] = tally.done
        counted.append([done[number] for number in range(8)])
    assert counted[0] == counted[1]


def test_everything_that_can_be_listed_is() -> None:
    """Every transition and every synchronizing pair is walked; every code point stands in every position."""
    subject = from_json("t", json.dumps(NATIVE).encode())
    rounds, tally, coverage = Rounds(subject, Corpus(None), 1), Tally(), Coverage(subject.compiled)
    points = 0
    for index, task in enumerate(rounds.systematic):
        if task.kind == "code points":
            texts, _ = task.make()
            points += sum(len(text) == 1 for text in texts)
        elif task.kind in ("seams", "transitions", "short strings"):
            assert rounds.run(2 * index, tally, coverage) is None
    assert points == 0x110000 - 0x800
    assert len(POSITIONS) == 13
    for name, (hit, total) in coverage.counts().items():
        assert hit == total, name


def test_boundaries_that_the_engine_took_from_its_reference_do_not_count() -> None:
    described: dict[str, Any] = NATIVE | {"normalizer": {"type": "NFC"}}
    subject = from_json("t", json.dumps(described).encode())
    assert subject.native
    tally = Tally()
    assert check_texts(subject, ["plain text", "cafe\u0301"], tally) is None
    assert tally.done["boundaries"] == 2
    assert tally.done["ids"] > 2


def test_tiktoken_shows_its_pieces(rng: random.Random) -> None:
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b" a": 257, b"abc": 258}
    encoding = tiktoken.Encoding("t", pat_str=WORDS, mergeable_ranks=ranks, special_tokens={"<s>": 900})
    subject = from_encoding("t", encoding)
    assert subject.native, subject.tokenizer.reason
    texts = ["".join(rng.choices(["ab", " ", "abc", "1", "12", "<s>", ".", "\u4e00"], k=40)) for _ in range(50)]
    tally = Tally()
    assert check_texts(subject, texts, tally) is None
    assert tally.done["boundaries"] > 500
    inputs = [(text, subject.tokenizer.cuts(text).tolist()) for text in texts]
    assert check_cuts(subject, inputs, tally) is None
    pieces = subject.tokenizer.pieces("abc 12 ab").tolist()
    for wrong in ([0, 1, *pieces[1:]], pieces[:-1], [0]):
        assert subject.oracle.wrong_starts(["a b", "abc 12 ab"], [[0, 1], wrong]) == 1
