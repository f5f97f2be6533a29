"""The whole sweep: every real session turn by turn and every text of ../shared/data/multi, for every family.

Texts: ids, offsets and pieces of all of it, in stretches. Sessions: after every turn,
- the ids of a window that ends with the turn are compared with the reference's encode of the window, and the splice
  must lie inside the window, so what stands before it is what stood there at the turn before. Where either fails
  (a window may begin at an unlucky place) the whole text is encoded by the reference, which decides;
- at the last turn, and at as many others as the budget pays for (drawn at random), the whole text is compared.
A full encode at each of 20,000 turns would need the reference for days; `--every-turn-in-full` asks for it on
sessions small enough for the budget.

This is a campaign, not a test: tests/exact samples the same material in minutes.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from support import families, shared_data
from tokseam.scripts import transcripts

from . import records

WINDOW_CHARS = 2_000
STRETCH_CHARS = 100_000


@dataclass
class Outcome:
    """What one job (a family and a file) compared, and where it differed."""

    family: str
    file: str
    kind: str
    turns: int = 0
    turns_in_full: int = 0
    windows_refused: int = 0
    chars: int = 0
    seconds: float = 0.0
    mismatches: list[str] = field(default_factory=list)


#: Places that tokenizers rarely join over: between two words, or at a line that does not begin with white space.
PLACE = re.compile(r"(?<=[A-Za-z])(?= [A-Za-z])|(?<=\S\n)(?=\S)")


def window_start(text: str, changed: int) -> int:
    """Return such a place some way before `changed`. The way grows until there is one; 0 when there is none."""
    reach = WINDOW_CHARS
    while reach < changed:
        found = PLACE.search(text, changed - reach, changed - reach // 2)
        if found:
            return found.start()
        reach *= 2
    return 0


def sweep_session(family: families.Family, path: Path, budget_chars: int, seed: int) -> Outcome:
    outcome = Outcome(family.name, path.name, "session")
    started = time.monotonic()
    turns = transcripts.read_session(path)
    sizes = [len(turn) for turn in turns]
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    chosen = {len(turns) - 1}
    spent = 0
    order = list(range(len(turns) - 1))
    random.Random(f"{seed} {path.name} {family.name}").shuffle(order)
    for index in order:
        if spent + ends[index] <= budget_chars:
            chosen.add(index)
            spent += ends[index]
    session = family.engine.session()
    ids: list[int] = session.ids().tolist()
    text = ""
    for index, turn in enumerate(turns):
        splice = session.append(turn)
        ids[splice.start : splice.stop] = splice.ids.tolist()
        text += turn
        whole = index in chosen
        if not whole:
            start = window_start(text, len(text) - len(turn))
            window = family.reference.ids(text[start:])
            if start:  # a tokenizer may put something in front of a text: leave the window's first words out
                head = family.reference.ids(text[start : text.find(" ", start + 1)])
                window = window[len(head) :] if window[: len(head)] == head else window
            kept = len(ids) - len(window)
            whole = kept < 0 or splice.start < kept or ids[kept:] != window or (start == 0 and kept != 0)
            outcome.windows_refused += whole
        if whole:
            outcome.turns_in_full += 1
            difference = shared_data.difference(ids, family.reference.ids(text))
            if difference:
                outcome.mismatches.append(f"turn {index}: {difference}")
        outcome.turns += 1
    if session.ids().tolist() != ids or session.text() != text:
        outcome.mismatches.append("the session's own ids or text are not those that its splices gave")
    outcome.chars = len(text)
    outcome.seconds = time.monotonic() - started
    return outcome


def sweep_text(family: families.Family, path: Path) -> Outcome:
    outcome = Outcome(family.name, path.name, "text")
    started = time.monotonic()
    text = shared_data.read_text(path)
    for start in range(0, len(text), STRETCH_CHARS):
        part = text[start : start + STRETCH_CHARS]
        ids, offsets = family.reference.ids_and_offsets(part)
        found = [tuple(span) for span in family.engine.offsets(part).tolist()]
        differences = (
            shared_data.difference(family.engine.encode(part).tolist(), ids),
            "" if found == offsets else "the offsets differ",
            family.reference.pieces_error(part, family.engine.pieces(part).tolist()),
        )
        outcome.mismatches += [f"from character {start}: {words}" for words in differences if words]
    outcome.chars = len(text)
    outcome.seconds = time.monotonic() - started
    return outcome


_FAMILY: families.Family | None = None  # one family at a time in each process: its tables are large


def run_job(name: str, kind: str, path: Path, budget_chars: int, seed: int) -> Outcome:
    global _FAMILY
    if _FAMILY is None or _FAMILY.name != name:
        _FAMILY = None
        _FAMILY = families.load(name)
        assert _FAMILY is not None
    try:
        if kind == "session":
            return sweep_session(_FAMILY, path, budget_chars, seed)
        return sweep_text(_FAMILY, path)
    except Exception as error:  # a campaign tells of it and goes on
        return Outcome(name, path.name, kind, mismatches=[f"{type(error).__name__}: {error}"])


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--family", "names", multiple=True, type=click.Choice(families.NATIVE), help="Default: all of them.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(["session", "text"]), help="Default: both.")
@click.option("--match", default="", help="Only files whose name holds this.")
@click.option("--budget", default=3_000_000, help="Characters of full encodes a session beside the last turn's.")
@click.option("--every-turn-in-full", is_flag=True, help="No budget: a full reference encode at every turn.")
@click.option("--processes", default=os.cpu_count() or 1, type=click.IntRange(min=1))
@click.option("--seed", default=0, help="Draws the turns that are compared in full.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=records.RESULTS / "sweep.json",
    help="Where the record goes.",
)
def main(
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    match: str,
    budget: int,
    every_turn_in_full: bool,
    processes: int,
    seed: int,
    json_path: Path,
) -> None:
    """Compare everything in ../shared/data with the reference. Exit code 1 on any mismatch."""
    console = Console()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    budget = sys.maxsize if every_turn_in_full else budget
    files = [("session", path) for path in transcripts.session_files()]
    files += [("text", path) for path in shared_data.multi_texts()]
    files = [(kind, path) for kind, path in files if (not kinds or kind in kinds) and match in path.name]
    if not files:
        raise click.ClickException("nothing to sweep: ../shared/data/sessions and multi are not on this machine")
    wanted = [name for name in (names or families.NATIVE) if _present(name, console)]
    status: dict[str, str] = {}
    outcomes: list[Outcome] = []
    started = time.monotonic()
    columns = (TextColumn("{task.description:<37}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for name in wanted:
            task = progress.add_task(name, total=len(files))
            family = families.load(name)
            assert family is not None
            status[name] = family.engine.status
            del family
            # Large files first, so that no process is left alone with one at the end.
            ordered = sorted(files, key=lambda entry: -entry[1].stat().st_size)
            with ProcessPoolExecutor(processes) as pool:
                jobs = [pool.submit(run_job, name, kind, path, budget, seed) for kind, path in ordered]
                for job in as_completed(jobs):
                    outcomes.append(job.result())
                    progress.update(task, advance=1, description=f"{name} {outcomes[-1].file[:24]}")
                    for words in outcomes[-1].mismatches[:3]:
                        progress.console.print(f"[red]{name} {outcomes[-1].file}[/] {words}")
            # After each family, so that what an interrupted sweep has found is kept.
            found = (o for o in outcomes if o.family == name)
            wrong = sum(len(outcome.mismatches) for outcome in found)
            progress.console.print(f"{name}: {wrong} mismatches after {time.monotonic() - started:,.0f} s")
            write_record(json_path, outcomes, status, started, None if every_turn_in_full else budget)
    show(console, outcomes, status)
    console.print(f"record: {json_path}")
    if any(outcome.mismatches for outcome in outcomes):
        sys.exit(1)


def write_record(
    path: Path, outcomes: list[Outcome], status: dict[str, str], started: float, budget: int | None
) -> None:
    records.write_json(
        path,
        {
            "bench": "sweep",
            "machine": records.machine(),
            "seconds": round(time.monotonic() - started, 1),
            "status": status,
            "window_chars": WINDOW_CHARS,
            "budget_chars": budget,
            "mismatches": sum(len(outcome.mismatches) for outcome in outcomes),
            "outcomes": [asdict(o) for o in sorted(outcomes, key=lambda o: (o.family, o.kind, o.file))],
        },
    )


def _present(name: str, console: Console) -> bool:
    if families.load(name) is None:
        console.print(f"[yellow]{name} is not on this machine: scripts/fetch_tokenizers --only {name}[/]")
        return False
    return True


def show(console: Console, outcomes: list[Outcome], status: dict[str, str]) -> None:
    table = Table(title="Sweep against the reference")
    headings = ("family", "status", "sessions", "turns", "in full", "texts", "M characters", "mismatches")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("family", "status") else "right")
    for name, words in status.items():
        mine = [outcome for outcome in outcomes if outcome.family == name]
        sessions = [outcome for outcome in mine if outcome.kind == "session"]
        wrong = sum(len(outcome.mismatches) for outcome in mine)
        table.add_row(
            name,
            words,
            str(len(sessions)),
            f"{sum(outcome.turns for outcome in sessions):,}",
            f"{sum(outcome.turns_in_full for outcome in sessions):,}",
            str(len(mine) - len(sessions)),
            f"{sum(outcome.chars for outcome in mine) / 1e6:.1f}",
            f"[red]{wrong}[/]" if wrong else "0",
        )
    console.print(table)


if __name__ == "__main__":
    main()
