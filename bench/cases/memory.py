"""What sessions hold: bytes a token of a growing session, of 100 forks of a long one, and after all are closed.

The engine's own count (`session_bytes` of stats) stands beside what the process really holds more than before (RSS).
The engine counts what forks share in each of them; the process holds it once. Nobody asks for the list of ids here: a
caller who keeps one pays for Python's numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path
from typing import Any

from rich.table import Table

from .. import process_memory, subjects
from ..case import Job, Options, Row

TITLE = "Bytes a token of a growing session, of 100 forks, and after close"

CHECKPOINTS = (100_000, 500_000, 1_000_000, 2_000_000, 4_000_000)
QUICK_CHECKPOINTS = (100_000, 1_000_000)
FORK_TOKENS = 500_000
QUICK_FORK_TOKENS = 100_000
FORKS = 100
DELTA_CHARS = 1_400


def jobs(options: Options) -> list[Job]:
    tokenizers = options.tokenizers or (("qwen3",) if options.quick else ("qwen3", "llama3_1", "gemma3"))
    return [
        {
            "tokenizer": tokenizer,
            "checkpoints": list(QUICK_CHECKPOINTS if options.quick else CHECKPOINTS),
            "fork_tokens": QUICK_FORK_TOKENS if options.quick else FORK_TOKENS,
            "cores": 1,
        }
        for tokenizer in tokenizers
    ]


def run(job: Job) -> list[Row]:
    from tokseam.client import Embedded
    from tokseam.scripts import transcripts

    subject = subjects.load(job["tokenizer"])
    engine = Embedded({"t": subject.source})
    steps, origin = transcripts.transcript(job["checkpoints"][-1] + 1_000_000)
    whole = "".join(steps)
    engine.encode_array(whole[:60_000])  # the encoder's own buffers are no session's
    base = _settled()
    rows: list[Row] = []

    def note(what: str, session_tokens: int, forks: int = 0) -> None:
        held = _settled()
        counted = engine.stats()["session_bytes"]
        rows.append(
            {
                "tokenizer": job["tokenizer"],
                "origin": origin,
                "what": what,
                "tokens": session_tokens,
                "forks": forks,
                "session_bytes": counted,
                "rss_more_bytes": int((held.rss - base.rss) * 1024**2),
                "pss_more_bytes": int((held.pss - base.pss) * 1024**2),
            }
        )

    session = engine.session("growing", tokenizer="t")
    chars = 0
    tokens = 0
    for step in steps:
        patch = session.append_patch(step)
        chars, tokens = chars + len(step), patch.start + len(patch.ids)
        if job["checkpoints"] and chars >= job["checkpoints"][0]:
            note(f"growing, {job['checkpoints'].pop(0):,} characters", tokens)
    session.close()
    del session
    note("closed", 0)

    parent = engine.session("parent", tokenizer="t")
    at = 0
    tokens = 0
    while tokens < job["fork_tokens"] and at < len(whole):
        patch = parent.append_patch(whole[at : at + 20_000])
        at, tokens = at + 20_000, patch.start + len(patch.ids)
    note("parent", tokens)
    forks: list[Any] = [parent.fork(f"fork-{number}") for number in range(FORKS)]
    note("forks", tokens, FORKS)
    for number, fork in enumerate(forks):
        fork.append_patch(whole[number * DELTA_CHARS : (number + 1) * DELTA_CHARS])
    note(f"forks, {DELTA_CHARS:,} characters appended to each", tokens, FORKS)
    for number, fork in enumerate(forks):
        middle = len(whole[:at]) // 2 + number * 100
        fork.edit(middle, middle + 10, "an edit in the middle")
    note("forks, each also edited in the middle", tokens, FORKS)
    for fork in [parent, *forks]:
        fork.close()
    forks.clear()
    del parent, fork
    note("closed", 0)
    return rows


def _settled() -> process_memory.Memory:
    """Give freed memory back to the system first: what a load or a step has freed would hide what a session takes."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return process_memory.now()


def tables(rows: list[Row]) -> list[Table]:
    table = Table(title="What sessions hold: the engine's count, and the process's growth")
    for heading in (
        "tokenizer",
        "state",
        "tokens",
        "forks",
        "counted MiB",
        "B/token",
        "RSS more MiB",
        "B/token of RSS",
        "KiB a fork",
    ):
        table.add_column(heading, justify="left" if heading in ("tokenizer", "state") else "right")
    parents = {row["tokenizer"]: row["rss_more_bytes"] for row in rows if row["what"] == "parent"}
    for row in rows:
        tokens = row["tokens"]
        counted, more = row["session_bytes"], row["rss_more_bytes"]
        each = [f"{counted / tokens:.1f}", f"{more / tokens:.1f}"] if tokens else ["", ""]
        table.add_row(
            row["tokenizer"],
            row["what"],
            f"{tokens:,}",
            str(row["forks"] or ""),
            f"{counted / 1024**2:,.1f}",
            each[0],
            f"{more / 1024**2:,.1f}",
            each[1],
            f"{(more - parents[row['tokenizer']]) / 1024 / row['forks']:.1f}" if row["forks"] else "",
        )
    return [table]


def figures(rows: list[Row], folder: Path) -> list[Path]:
    from .. import figures as drawing

    growing = [row for row in rows if row["what"].startswith("growing")]
    return drawing.memory_lines(folder / "memory", growing)
