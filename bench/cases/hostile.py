"""Texts that tokenizers choke on: how the time grows from 100 K to 4 M characters, and a byte's cost beside English.

The growth exponent is the slope of log(processor time) over log(characters): 1 is linear, 2 quadratic. A peer that
would need longer than `LIMIT_S` for the next size, were it quadratic, is not asked for it (n/a).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.table import Table

from .. import figures as drawing
from .. import hostile_texts, report, subjects, texts
from ..case import Job, Options, Row
from ..contest import Contest
from ..peers import NAMES, QUICK

TITLE = (
    "A million of 'a', random letters, CJK, spaces, digits, marks, literal prefixes: growth, and cost beside English"
)

SIZES = (100_000, 400_000, 1_000_000, 4_000_000)
QUICK_SIZES = (30_000, 100_000, 300_000)
ENGLISH = "english"
LIMIT_S = 20.0
QUICK_LIMIT_S = 1.0
ROUNDS = 3


def jobs(options: Options) -> list[Job]:
    return [
        {
            "tokenizer": tokenizer,
            "text": kind,
            "sizes": list(options.sizes or (QUICK_SIZES if options.quick else SIZES)),
            "peers": list(options.peers or (QUICK if options.quick else NAMES)),
            "cores": 1,
            "limit_s": QUICK_LIMIT_S if options.quick else LIMIT_S,
        }
        for tokenizer in (options.tokenizers or ("qwen3",))
        for kind in (options.texts or (ENGLISH, *hostile_texts.KINDS))
    ]


def run(job: Job) -> list[Row]:
    subject = subjects.load(job["tokenizer"])
    contest = Contest(subject, job["peers"], job["cores"], job.get("without"))
    other = texts.Corpus("code", subject.literals)
    for size in (300, 3_000, 30_000, 300_000):
        contest.warm(other.take(size))
    corpus = texts.Corpus(ENGLISH, subject.literals)
    rows: list[Row] = []
    before = 0
    for chars in sorted(job["sizes"]):
        column = str(chars)
        if before:
            contest.leave_out_slow(str(before), job["limit_s"] * 1e6 / (chars / before) ** 2)
        made = 0
        for number in range(ROUNDS):
            try:
                text = (
                    corpus.take(chars)
                    if job["text"] == ENGLISH
                    else hostile_texts.make(job["text"], chars, number, subject.literals)
                )
            except texts.ExhaustedError:
                break
            tokens = contest.round(column, text)
            made += 1
        if made:
            rows.append(
                {
                    **{key: job[key] for key in ("tokenizer", "text", "cores")},
                    "chars": chars,
                    "bytes": len(text.encode()),
                    "ids": tokens,
                    "peers": contest.result(column),
                }
            )
        before = chars
    return rows


def exponent(rows: list[Row], name: str) -> float | None:
    """Return the slope of log(time) over log(size) of a peer on the rows of one text, by least squares."""
    points = [
        (math.log(row["chars"]), math.log(row["peers"][name]["us"]["cpu_p50"]))
        for row in rows
        if row["peers"].get(name, {}).get("us")
    ]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _byte_ns(row: Row, name: str) -> float | None:
    found = row["peers"].get(name, {}).get("us")
    return 1e3 * float(found["cpu_p50"]) / float(row["bytes"]) if found else None


def tables(rows: list[Row]) -> list[Table]:
    made: list[Table] = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        mine = [row for row in rows if row["tokenizer"] == tokenizer]
        made.append(report.contest_table(f"{tokenizer}: milliseconds (median)", mine, ("text", "chars"), 1e3))
        made.append(_growth(tokenizer, mine))
    return made


def _growth(tokenizer: str, rows: list[Row]) -> Table:
    sizes = sorted({row["chars"] for row in rows})
    at = 1_000_000 if 1_000_000 in sizes else sizes[-1]
    table = Table(
        title=f"{tokenizer}: growth exponent, and a byte's cost as a multiple of English (at {at:,} characters)"
    )
    table.add_column("text")
    names = list(dict.fromkeys(name for row in rows for name, found in row["peers"].items() if found.get("us")))
    for name in names:
        table.add_column(name, justify="right")
    english = {row["chars"]: row for row in rows if row["text"] == ENGLISH}
    for kind in dict.fromkeys(row["text"] for row in rows):
        mine = [row for row in rows if row["text"] == kind]
        table.add_row(kind, *[_growth_cell(mine, english.get(at), name, at) for name in names])
    return table


def _growth_cell(rows: list[Row], english: Row | None, name: str, at: int) -> str:
    slope = exponent(rows, name)
    row = next((row for row in rows if row["chars"] == at), None)
    cost: Any = _byte_ns(row, name) if row else None
    plain: Any = _byte_ns(english, name) if english else None
    words = "n/a" if slope is None else f"n^{slope:.2f}"
    return f"{words} {cost / plain:.1f}x" if cost and plain else words


def figures(rows: list[Row], folder: Path) -> list[Path]:
    made: list[Path] = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        mine = [row for row in rows if row["tokenizer"] == tokenizer]
        made += drawing.growth(folder / f"hostile-{tokenizer}", f"{tokenizer}: hostile texts, one core", mine)
    return made
