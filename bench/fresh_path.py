"""Where the fresh path begins to pay: whole texts by a fresh worker beside whole texts by their session's owner.

    python -m bench fresh-path [--only starts|appends]

*starts*, the crossover: two tiers stand side by side that differ in their threshold alone. One gives every whole text
to its fresh worker and one none; each text goes to both, in turns, so that it is fresh to each, and nothing else runs
there. Timed are a session's first text to its ids, and the first append behind it, which on the fresh path has a seed
to wait for. The sizes are powers of two around the default threshold, beside which the crossover is told: the smallest
size from which on the fresh path is no slower. How many texts the broker really gave to the fresh worker stands there
too, for it spills where the owner would be sooner done.

*appends*, what a fresh worker is for: an append's time while another client starts sessions as fast as it can, on a
tier with a fresh worker and on one without.

Ids are compared with the reference before anything is timed. Not measured here: batches of many clients' texts.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from support import families
from tokseam.broker.state import Limits
from tokseam.client import connect
from tokseam.client.sync import Tier
from tokseam.scripts.serve import running_tier

from . import records
from .spread import Spread
from .texts import Corpus

#: Bytes of a session's first text: 2 KiB to 1 MiB, in powers of two.
SIZES = tuple(1 << power for power in range(11, 21))
#: Texts of a size are at least so many, and at most.
TEXTS = (8, 200)
#: Characters of the session whose appends are timed under load, of an append, and of the sessions that start meanwhile.
CONTEXT_CHARS = 100_000
DELTA_CHARS = 1_400
LOAD_CHARS = 400_000
#: Of the loading client: texts that it has, and sends again and again to sessions of new names.
LOAD_TEXTS = 40
PARTS = ("starts", "appends")
#: What the tiers differ in: in who starts sessions, and in whether there is anyone but their owners to do it.
THRESHOLDS = {"owner": ["--fresh-threshold", str(1 << 40)], "fresh": ["--fresh-threshold", "0"]}
WORKERS = {"owner": ["--fresh-workers", "0"], "fresh": ["--fresh-threshold", "0"]}
COMMON = ["--shadow-rate", "0"]
FAMILIES = tuple(name for name in families.NATIVE if name not in ("cl100k", "o200k"))


def text_of(corpus: Corpus, nbytes: int) -> str:
    """Return text that no tier has seen, of so many bytes, or a few less."""
    return corpus.take(nbytes).encode()[:nbytes].decode(errors="ignore")


def starts(tiers: dict[str, Tier], texts: list[str]) -> dict[str, dict[str, list[int]]]:
    """Start a session for each text on each tier, and append to it; return the nanoseconds of both."""
    taken: dict[str, dict[str, list[int]]] = {path: {"start": [], "append": []} for path in tiers}
    clock = time.perf_counter_ns
    for number, text in enumerate(texts):
        for path, tier in sorted(tiers.items(), reverse=bool(number % 2)):
            with tier.session(f"start-{os.urandom(8).hex()}") as session:
                begun = clock()
                session.encode_patch(text)
                encoded = clock()
                session.append_patch(" and so on")
                taken[path]["start"].append(encoded - begun)
                taken[path]["append"].append(clock() - encoded)
    return taken


def given_to_fresh(tier: Tier) -> int:
    """Return how many texts the broker has given to a fresh worker so far."""
    return int(tier.stats()["broker"]["fresh"])


def rows_of_starts(
    tiers: dict[str, Tier], corpus: Corpus, sizes: Sequence[int], nbytes: int
) -> Iterator[dict[str, Any]]:
    """Yield for each size how long starts and first appends took on each tier, of `nbytes` of text in all."""
    starts(tiers, [text_of(corpus, 20_000) for _ in range(50)])  # warm up
    for size in sizes:
        texts = [text_of(corpus, size) for _ in range(max(TEXTS[0], min(TEXTS[1], nbytes // size)))]
        before = {path: given_to_fresh(tier) for path, tier in tiers.items()}
        taken = starts(tiers, texts)
        row: dict[str, Any] = {"bytes": size, "texts": len(texts)}
        for path, tier in tiers.items():
            spreads = {step: Spread.of_ns(times).as_dict() for step, times in taken[path].items()}
            row[path] = spreads | {"given_to_fresh_worker": given_to_fresh(tier) - before[path]}
        yield row


def crossover(rows: Sequence[dict[str, Any]]) -> int | None:
    """Return the smallest size from which on the fresh path's P50 is no longer than the owner's, if there is one."""
    found = None
    for row in sorted(rows, key=lambda row: -int(row["bytes"])):
        if row["fresh"]["start"]["p50"] > row["owner"]["start"]["p50"]:
            break
        found = int(row["bytes"])
    return found


def table_of_starts(rows: Sequence[dict[str, Any]], kind: str) -> Table:
    table = Table(title=f"A session's first text to its ids, and the first append behind it, in us ({kind})")
    for heading in (
        *("bytes", "texts", "owner P50", "P90", "fresh P50", "P90", "fresh / owner", "by the fresh worker"),
        *("append, owner P50", "append, fresh P50"),
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        start = {path: row[path]["start"] for path in THRESHOLDS}
        table.add_row(
            f"{row['bytes']:,}",
            str(row["texts"]),
            *(f"{start[path][name]:,.0f}" for path in THRESHOLDS for name in ("p50", "p90")),
            f"{start['fresh']['p50'] / start['owner']['p50']:.2f}",
            str(row["fresh"]["given_to_fresh_worker"]),
            *(f"{row[path]['append']['p50']:,.0f}" for path in THRESHOLDS),
        )
    return table


def keep_starting(endpoint: str, texts: list[str], stop: Event) -> None:
    """Start sessions as fast as one client can, until told to stop."""
    with connect(endpoint) as tier:
        for number, text in enumerate(itertools.cycle(texts)):
            if stop.is_set():
                return
            with tier.session(f"load-{number}") as session:
                session.encode_patch(f"{number} {text}")


def appends_under_load(tier: Tier, context: str, deltas: list[str], texts: list[str]) -> list[int]:
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    loading = spawn.Process(target=keep_starting, args=(tier.endpoint, texts, stop), daemon=True)
    sessions = [tier.session(f"appends-{number}") for number in range(8)]  # over both owners
    for session in sessions:
        session.encode_patch(context)
    before = tier.stats()["broker"]["requests"]
    loading.start()
    while tier.stats()["broker"]["requests"] < before + 10:
        time.sleep(0.05)
    taken = []
    for delta, session in zip(deltas, itertools.cycle(sessions), strict=False):
        begun = time.perf_counter_ns()
        session.append_patch(delta)
        taken.append(time.perf_counter_ns() - begun)
        time.sleep(0.002)
    stop.set()
    loading.join()
    return taken


def check(tier: Tier, family: families.Family, corpus: Corpus) -> None:
    text = corpus.take(200_000)
    if tier.session("check").encode(text) != family.reference.ids(text):
        raise click.ClickException("the ids are not the reference's: nothing is timed")


def measure_starts(
    family: families.Family, corpus: Corpus, folder: Path, sizes: Sequence[int], nbytes: int
) -> list[dict[str, Any]]:
    """Time sessions' first texts on two tiers side by side."""
    with ExitStack() as stack:
        tiers: dict[str, Tier] = {}
        for path, own in THRESHOLDS.items():
            endpoint = f"ipc://{folder}/{path}"
            stack.enter_context(running_tier({"t": family.source}, endpoint=endpoint, arguments=[*own, *COMMON]))
            tiers[path] = stack.enter_context(connect(endpoint))
            check(tiers[path], family, corpus)
        return list(rows_of_starts(tiers, corpus, sizes, nbytes))


def measure_appends(family: families.Family, corpus: Corpus, folder: Path, appends: int) -> dict[str, Spread]:
    """Time appends while another client starts sessions, on a tier with a fresh worker and on one without."""
    loaded: dict[str, Spread] = {}
    for path, own in WORKERS.items():
        endpoint = f"ipc://{folder}/{path}"
        with (
            running_tier({"t": family.source}, endpoint=endpoint, arguments=[*own, *COMMON]),
            connect(endpoint) as tier,
        ):
            check(tier, family, corpus)
            texts = [corpus.take(LOAD_CHARS) for _ in range(LOAD_TEXTS)]
            deltas = [corpus.take(DELTA_CHARS) for _ in range(appends)]
            loaded[path] = Spread.of_ns(appends_under_load(tier, corpus.take(CONTEXT_CHARS), deltas, texts))
    return loaded


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--tokenizer", default="deepseek_v4", type=click.Choice(FAMILIES), help="Which family to use.")
@click.option("--text", "kind", default="code", help="Kind of text.")
@click.option("--only", type=click.Choice(PARTS), help="One part alone.")
@click.option("--size", "sizes", multiple=True, type=click.IntRange(1), help="One size only, in bytes (repeatable).")
@click.option("--bytes", "nbytes", default=4_000_000, help="Text in all at each size, between 8 texts and 200.")
@click.option("--appends", default=2_000, help="Appends under load.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
def main(
    tokenizer: str,
    kind: str,
    only: str | None,
    sizes: tuple[int, ...],
    nbytes: int,
    appends: int,
    json_path: Path | None,
) -> None:
    """Time first texts by the owner and by the fresh path, and appends while others start sessions."""
    console = Console()
    family = families.load(tokenizer)
    if family is None:
        raise click.ClickException(f"no copy of {tokenizer}: run scripts/fetch_tokenizers --only {tokenizer}")
    corpus = Corpus(kind)
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    record: dict[str, Any] = {"bench": "fresh-path", "machine": records.machine()}
    record |= {"tokenizer": tokenizer, "text": corpus.origin}
    try:
        if only != "starts":
            loaded = measure_appends(family, corpus, folder, appends)
            record["appends_under_load_us"] = {path: spread.as_dict() for path, spread in loaded.items()}
            console.print(f"appends of {DELTA_CHARS:,} while another client starts sessions of {LOAD_CHARS:,}, in us")
            for path, one in loaded.items():
                console.print(
                    f"  {path}: P50 {one.p50:,.0f}, P90 {one.p90:,.0f}, P99 {one.p99:,.0f}, most {one.maximum:,.0f}"
                )
        if only != "appends":
            rows = measure_starts(family, corpus, folder, sizes or SIZES, nbytes)
            found, default = crossover(rows), Limits().fresh_bytes
            record |= {"starts_us": rows, "crossover_bytes": found, "default_threshold_bytes": default}
            console.print(table_of_starts(rows, kind))
            where = "at none of the largest sizes" if found is None else f"from {found:,} bytes on"
            console.print(f"no slower by the fresh path: {where}; the default threshold is {default:,}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if json_path is not None:
        records.write_json(json_path, record)
        console.print(f"record: {json_path}")


if __name__ == "__main__":
    main()
