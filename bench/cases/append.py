"""An append to a long session: ours embedded and through the broker, beside each peer's best way to the same ids.

A peer's best way is a full encode of the whole text with everything it caches warm (it has encoded the context
before); toktier's is its own session's append_patch. `--long` is another question: bench/long_appends.py.
"""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from .. import changes, long_appends
from ..case import Job, Options, Row

TITLE = "Appends of 16 to 100 K characters at contexts of 100 K to 8 M, beside the best peer"
KIND = "append"


def jobs(options: Options) -> list[Job]:
    return long_appends.jobs(options) if options.long else changes.jobs(KIND, options)


def estimate_s(job: Job) -> float | None:
    """Return about how long a job takes, where that is known."""
    return long_appends.estimate_s(job) if "mix" in job else None


def run(job: Job) -> list[Row]:
    return long_appends.run(job) if "mix" in job else changes.run(job)


def tables(rows: list[Row]) -> list[Table]:
    usual = [row for row in rows if "mix" not in row]
    return changes.tables(usual) + long_appends.tables([row for row in rows if "mix" in row])


def figures(rows: list[Row], folder: Path) -> list[Path]:
    return changes.figures([row for row in rows if "mix" not in row], folder)
