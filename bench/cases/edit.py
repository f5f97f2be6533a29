"""An edit in the middle of a long session, and a rewritten tail, beside the best peer's full encode.

`tokseam` is told where the change is; `tokseam whole turn` gets the whole new text and finds the change itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.table import Table

from .. import changes
from ..case import Job, Options, Row

TITLE = "Edits in the middle and rewritten tails of 16 to 100 K characters at contexts of 100 K to 8 M"
QUICK_CONTEXT = 1_000_000
KINDS = ("middle", "tail")


def jobs(options: Options) -> list[Job]:
    if options.quick and not options.sizes:
        options = replace(options, sizes=(QUICK_CONTEXT,))
    kinds = [kind for kind in KINDS if not options.texts or kind in options.texts]
    return [job for kind in kinds for job in changes.jobs(kind, options)]


def run(job: Job) -> list[Row]:
    return changes.run(job)


def tables(rows: list[Row]) -> list[Table]:
    return changes.tables(rows)


def figures(rows: list[Row], folder: Path) -> list[Path]:
    return changes.figures(rows, folder)
