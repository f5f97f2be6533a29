"""An append to a long session: ours embedded and through the broker, beside each peer's best way to the same ids.

A peer's best way is a full encode of the whole text with everything it caches warm (it has encoded the context
before); toktier's is its own session's append_patch. `--long` times 100,000 appends of 1,400 characters a context.
"""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from .. import changes
from ..case import Job, Options, Row

TITLE = "Appends of 16 to 100 K characters at contexts of 100 K to 8 M, beside the best peer"
KIND = "append"


def jobs(options: Options) -> list[Job]:
    return changes.jobs(KIND, options)


def run(job: Job) -> list[Row]:
    return changes.run(job)


def tables(rows: list[Row]) -> list[Table]:
    return changes.tables(rows)


def figures(rows: list[Row], folder: Path) -> list[Path]:
    return changes.figures(rows, folder)
