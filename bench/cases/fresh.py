"""Whole texts of every kind and size, once: ours and the peers, one core and two.

Three columns that are never mixed:
- fresh: text that this process never encoded, after a warm-up with text of another kind;
- prewarmed: text that it never encoded, after much other text of the same kind;
- repeated: the same text again. Ours recognises its chunks; "tokseam pieces" does not, in any column.
Every job is a process of its own, so a text that one job has seen is unknown to the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from .. import figures as drawing
from .. import report, subjects, texts
from ..case import Job, Options, Row
from ..contest import Contest
from ..peers import NAMES, PIECES, QUICK

TITLE = "Fresh, prewarmed and repeated texts of 1 K to 8 M characters, every kind, one core and two"

SIZES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000, 8_000_000)
QUICK_SIZES = (1_000, 1_000_000)
TOKENIZERS = ("qwen3", "llama3_1", "gptoss", "deepseek_v4", "o200k")
#: Rounds of a size: fresh slices, prewarmed slices, repeats. Fewer where the corpus ends.
ROUNDS = {1_000: (25, 25, 25), 10_000: (15, 15, 15), 100_000: (7, 7, 9), 1_000_000: (3, 3, 5)}
LARGE_ROUNDS = (1, 1, 3)
PREWARM_CHARS = 1_500_000
COLUMNS = ("fresh", "prewarmed", "repeated")


def jobs(options: Options) -> list[Job]:
    sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    kinds = options.texts or (("english", "code") if options.quick else tuple(texts.KINDS))
    cores = options.cores or ((1,) if options.quick else (1, 2))
    return [
        {
            "tokenizer": tokenizer,
            "text": kind,
            "chars": chars,
            "cores": count,
            "peers": list(options.peers or ((*QUICK, PIECES) if options.quick else (*NAMES, PIECES))),
            "quick": options.quick,
        }
        for tokenizer in (options.tokenizers or (("qwen3",) if options.quick else TOKENIZERS))
        for kind in kinds
        for chars in sizes
        for count in cores
        # What a second core is worth shows on large texts.
        if count == 1 or chars >= 100_000
    ]


def run(job: Job) -> list[Row]:
    subject = subjects.load(job["tokenizer"])
    kind, chars = job["text"], job["chars"]
    corpus = texts.Corpus(kind, subject.literals)
    fresh, prewarmed, repeats = ROUNDS.get(chars, LARGE_ROUNDS)
    contest = Contest(subject, job["peers"], job["cores"], job.get("without"))
    other = texts.Corpus(texts.warm_up_kind(kind), subject.literals)
    # A large one too: buffers grow and pools start at the first large text, which is no property of the one measured.
    for size in (300, 3_000, 30_000, min(chars, 300_000 if job["quick"] else 1_000_000)):
        contest.warm(other.take(size))
    row = {**{key: job[key] for key in ("tokenizer", "text", "chars", "cores")}, "origin": corpus.origin}
    rows: list[Row] = []
    text, seen = "", 0

    def slices(column: str, rounds: int) -> None:
        nonlocal text, seen
        given = 0
        for _ in range(rounds):
            try:
                text = corpus.take(chars)
            except texts.ExhaustedError as end:
                if not given:
                    rows.append({**row, "column": column, "peers": {}, "none": str(end)})
                    return
                break
            tokens = contest.round(column, text)
            given, seen = given + 1, seen + chars
        rows.append(_row(row, column, text, tokens, contest, seen - given * chars))

    slices("fresh", fresh)
    if not rows[-1].get("none") and not (job["quick"] and chars >= 1_000_000):
        try:
            while seen < PREWARM_CHARS and chars < 4_000_000:
                contest.feed(corpus.take(50_000))
                seen += 50_000
        except texts.ExhaustedError:
            pass
        slices("prewarmed", prewarmed)
    if text:
        tokens = contest.round("repeated", text, repeats)
        rows.append(_row(row, "repeated", text, tokens, contest, seen))
    return rows


def _row(row: Row, column: str, text: str, tokens: int, contest: Contest, seen: int) -> dict[str, Any]:
    return {
        **row,
        "column": column,
        "bytes": len(text.encode()),
        "ids": tokens,
        "same_kind_chars_before": seen,
        "peers": contest.result(column),
    }


def tables(rows: list[Row]) -> list[Table]:
    found = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        for cores in (1, 2):
            mine = [row for row in rows if row["tokenizer"] == tokenizer and row["cores"] == cores]
            if mine:
                title = f"{tokenizer}: milliseconds (median), {cores} core{'s' * (cores > 1)}"
                found.append(report.contest_table(title, mine, ("text", "chars", "column"), 1e3))
    return found


def figures(rows: list[Row], folder: Path) -> list[Path]:
    made: list[Path] = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        mine = [row for row in rows if row["tokenizer"] == tokenizer and row["cores"] == 1]
        made += drawing.throughput(folder / f"fresh-{tokenizer}", tokenizer, mine, COLUMNS)
    return made
