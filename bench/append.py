"""An append of one step at contexts of 100 K to 4 M characters, beside a full encode by the reference.

The claim: an append's time follows the appended text, not the context (median at the largest context under 1.5 times
the median at the smallest). Contexts take turns within one run, on one pinned core, so that a change of the machine's
pace falls on all of them. Ids are compared with the reference before anything is timed.

Not measured here: the broker, the client's search for what changed, a process's first call.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from support import families
from tokseam.kernels import engine
from tokseam.scripts import transcripts

from . import records

DELTA_CHARS = 1_400  # the median step of a coding agent
CONTEXTS = (100_000, 500_000, 1_000_000, 2_000_000, 4_000_000)
#: The most that the median may grow from the smallest to the largest context.
MOST_RATIO = 1.5
WARM_UP_ROUNDS = 20
#: Each timed append stands after a filler of fewer characters than this.
FILLER_CHARS = 8_000


class Bed:
    """One session at one context. `append` is what is timed; `take_back` undoes it, untimed."""

    def __init__(self, tokenizer: engine.Tokenizer, source: Any, embedded: bool, text: str) -> None:
        self.chars = len(text)
        self.session: Any
        self.append: Callable[[str], Any]
        if embedded:
            from tokseam.client import Embedded

            self.session = Embedded({"t": source}).session(f"bench-{self.chars}", tokenizer="t")
            self.append = self.session.append_patch
        else:
            self.session = tokenizer.session()
            self.append = self.session.append
        self.append(text)

    def take_back(self, chars: int) -> None:
        self.session.edit(self.chars, self.chars + chars, "")


def has_embedded() -> bool:
    if find_spec("tokseam.client") is None:
        return False
    import tokseam.client

    return hasattr(tokseam.client, "Embedded")


def check_equal(bed: Bed, family: families.Family, text: str, delta: str) -> None:
    """Refuse to time what is not exact: the patch, applied to the reference's ids, gives the reference's ids."""
    before = np.array(family.reference.ids(text), dtype=np.uint32)
    patch = bed.append(delta)
    after = np.concatenate([before[: patch.start], np.asarray(patch.ids, dtype=np.uint32), before[patch.stop :]])
    wanted = np.array(family.reference.ids(text + delta), dtype=np.uint32)
    bed.take_back(len(delta))
    if not np.array_equal(after, wanted):
        raise click.ClickException(f"at {len(text):,} characters the ids are not the reference's: nothing is timed")


def time_appends(
    beds: list[Bed], deltas: list[str], fillers: list[str], advance: Callable[[], None]
) -> list[list[int]]:
    """Time every delta on every bed, the beds in a new order each round.

    Before it, untimed, comes a filler: what an append costs depends on how the text before it happens to end, and one
    end a context would measure that instead of the context.
    """
    rng = random.Random(1)
    order = list(range(len(beds)))
    taken: list[list[int]] = [[] for _ in beds]
    clock = time.perf_counter_ns
    gc.collect()
    gc.disable()
    try:
        for number, (delta, filler) in enumerate(zip(deltas, fillers, strict=True)):
            rng.shuffle(order)
            for index in order:
                append = beds[index].append
                append(filler)
                start = clock()
                append(delta)
                stop = clock()
                beds[index].take_back(len(filler) + len(delta))
                if number >= WARM_UP_ROUNDS:
                    taken[index].append(stop - start)
            advance()
    finally:
        gc.enable()
    return taken


def time_reference(family: families.Family, text: str, repeats: int) -> list[int]:
    taken: list[int] = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        family.reference.ids(text)
        taken.append(time.perf_counter_ns() - start)
    return taken


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--tokenizer", default="deepseek_v4", type=click.Choice(families.ALL), help="Which family to use.")
@click.option("--rounds", default=2_000, type=click.IntRange(min=10), help="Appends timed at each context.")
@click.option("--reference-repeats", default=3, type=click.IntRange(min=1), help="Full encodes timed at each context.")
@click.option("--most-chars", default=CONTEXTS[-1], help="Leave out contexts above this.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
def main(tokenizer: str, rounds: int, reference_repeats: int, most_chars: int, json_path: Path | None) -> None:
    """Time appends of 1,400 characters at growing contexts. Exit code 1 when the ratio does not hold."""
    console = Console()
    family = families.load(tokenizer)
    if family is None:
        raise click.ClickException(f"no copy of {tokenizer}: run scripts/fetch_tokenizers --only {tokenizer}")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    core = records.pin_to_one_core()
    contexts = [chars for chars in CONTEXTS if chars <= most_chars]
    total = rounds + WARM_UP_ROUNDS
    steps, origin = transcripts.transcript(contexts[-1] + 1_000_000)
    whole = "".join(steps)
    rng = random.Random(0)
    cuts = [rng.randrange(contexts[-1], len(whole) - DELTA_CHARS) for _ in range(total)]
    deltas = [whole[cut : cut + DELTA_CHARS] for cut in cuts]
    fillers = [whole[cut - rng.randrange(FILLER_CHARS) : cut] for cut in cuts]
    embedded = has_embedded()
    face = "Embedded.append_patch" if embedded else "engine session append"
    console.print(f"{tokenizer} ({family.engine.status}), {face}, {origin}, core {core}")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("contexts checked against the reference", total=len(contexts))
        beds: list[Bed] = []
        for chars in contexts:
            beds.append(Bed(family.engine, family.source, embedded, whole[:chars]))
            check_equal(beds[-1], family, whole[:chars], deltas[0])
            progress.advance(task)
        task = progress.add_task("appends", total=total)
        taken = time_appends(beds, deltas, fillers, lambda: progress.advance(task))
        task = progress.add_task("full encodes by the reference", total=len(contexts))
        full: list[list[int]] = []
        for chars in contexts:
            full.append(time_reference(family, whole[:chars] + deltas[0], reference_repeats))
            progress.advance(task)
    appends = [records.Spread.of_ns(sample) for sample in taken]
    encodes = [records.Spread.of_ns(sample) for sample in full]
    ratio = appends[-1].p50 / appends[0].p50
    holds = ratio < MOST_RATIO
    table = Table(title=f"An append of {DELTA_CHARS:,} characters, us; full: all of it by the reference")
    for heading in ("context", "min", "P50", "P90", "P99", "P99.9", "max", "full ms", "faster"):
        table.add_column(heading, justify="right")
    for chars, spread, encode in zip(contexts, appends, encodes, strict=True):
        figures = (spread.minimum, spread.p50, spread.p90, spread.p99, spread.p999, spread.maximum)
        cells = [f"{figure:,.1f}" for figure in figures]
        table.add_row(f"{chars / 1e6:g} M", *cells, f"{encode.p50 / 1e3:,.1f}", f"{encode.p50 / spread.p50:,.0f}x")
    console.print(table)
    verdict = "[green]holds[/]" if holds else "[red]does not hold[/]"
    console.print(
        f"median at {contexts[-1]:,} / median at {contexts[0]:,} = {ratio:.2f}; under {MOST_RATIO}: {verdict}"
    )
    if json_path is not None:
        rows = [
            {"context_chars": chars, "append_us": spread.as_dict(), "reference_full_us": encode.as_dict()}
            for chars, spread, encode in zip(contexts, appends, encodes, strict=True)
        ]
        record = {
            "bench": "append",
            "machine": records.machine(),
            "core": core,
            "tokenizer": tokenizer,
            "status": family.engine.status,
            "face": face,
            "text": origin,
            "delta_chars": DELTA_CHARS,
            "rows": rows,
            "ratio": ratio,
            "holds": holds,
        }
        records.write_json(json_path, record)
        console.print(f"record: {json_path}")
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
