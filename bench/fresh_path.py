"""Where the fresh path begins to pay: whole texts by a fresh worker beside whole texts by their session's owner.

Two tiers stand side by side, one whose fresh worker encodes every whole text and one without a fresh worker; each text
goes to both, in turns, so that it is fresh to each. First the crossover, on idle tiers: the time from a session's whole
text to its ids, and the first append behind it, which on the fresh path has a seed to wait for. Then what a fresh
worker is for: an append's time while another client starts sessions as fast as it can.

Ids are compared with the reference before anything is timed. Not measured here: batches of many clients' texts.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from support import families
from tokseam.client import connect
from tokseam.client.sync import Tier
from tokseam.scripts.serve import running_tier

from . import records
from .spread import Spread
from .texts import Corpus

SIZES = (1_000, 4_000, 16_000, 32_000, 64_000, 128_000, 256_000, 1_000_000, 4_000_000)
#: Characters of the session whose appends are timed under load, of an append, and of the sessions that start meanwhile.
CONTEXT_CHARS = 100_000
DELTA_CHARS = 1_400
LOAD_CHARS = 400_000
#: Of the loading client: texts that it has, and sends again and again to sessions of new names.
LOAD_TEXTS = 40
PATHS = {"owner": ["--fresh-workers", "0"], "fresh": ["--fresh-threshold", "0"]}
FAMILIES = tuple(name for name in families.NATIVE if name not in ("cl100k", "o200k"))


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


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--tokenizer", default="deepseek_v4", type=click.Choice(FAMILIES), help="Which family to use.")
@click.option("--text", "kind", default="code", help="Kind of text.")
@click.option("--chars", default=4_000_000, help="Characters in all at each size; at least five texts, at most 400.")
@click.option("--appends", default=2_000, help="Appends under load.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
def main(tokenizer: str, kind: str, chars: int, appends: int, json_path: Path | None) -> None:
    """Time whole texts by the owner and by the fresh path, and appends while others start sessions."""
    console = Console()
    family = families.load(tokenizer)
    if family is None:
        raise click.ClickException(f"no copy of {tokenizer}: run scripts/fetch_tokenizers --only {tokenizer}")
    corpus = Corpus(kind)
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    rows: list[dict[str, Any]] = []
    loaded: dict[str, Spread] = {}
    table = Table(title=f"A session's whole text to its ids, and the first append behind it, P50 in us ({kind})")
    for heading in ("characters", "texts", "owner", "fresh", "fresh / owner", "append, owner", "append, fresh"):
        table.add_column(heading, justify="right")
    common = ["--shadow-rate", "0"]
    try:
        for path, own in PATHS.items():
            with (
                running_tier({"t": family.source}, endpoint=f"ipc://{folder}/{path}", arguments=[*own, *common]),
                connect(f"ipc://{folder}/{path}") as tier,
            ):
                text = corpus.take(200_000)
                if tier.session("check").encode(text) != family.reference.ids(text):
                    raise click.ClickException("the ids are not the reference's: nothing is timed")
                texts = [corpus.take(LOAD_CHARS) for _ in range(LOAD_TEXTS)]
                deltas = [corpus.take(DELTA_CHARS) for _ in range(appends)]
                loaded[path] = Spread.of_ns(appends_under_load(tier, corpus.take(CONTEXT_CHARS), deltas, texts))
        with (
            running_tier({"t": family.source}, endpoint=f"ipc://{folder}/o", arguments=[*PATHS["owner"], *common]),
            running_tier({"t": family.source}, endpoint=f"ipc://{folder}/f", arguments=[*PATHS["fresh"], *common]),
            connect(f"ipc://{folder}/o") as owner,
            connect(f"ipc://{folder}/f") as fresh,
        ):
            tiers = {"owner": owner, "fresh": fresh}
            starts(tiers, [corpus.take(20_000) for _ in range(50)])  # warm up
            for size in SIZES:
                texts = [corpus.take(size) for _ in range(max(5, min(400, chars // size)))]
                taken = starts(tiers, texts)
                spreads = {path: {step: Spread.of_ns(times) for step, times in taken[path].items()} for path in taken}
                p50 = {path: (spreads[path]["start"].p50, spreads[path]["append"].p50) for path in spreads}
                table.add_row(
                    f"{size:,}",
                    str(len(texts)),
                    *(f"{p50[path][0]:,.0f}" for path in ("owner", "fresh")),
                    f"{p50['fresh'][0] / p50['owner'][0]:.2f}",
                    *(f"{p50[path][1]:,.0f}" for path in ("owner", "fresh")),
                )
                figures = {path: {step: one.as_dict() for step, one in two.items()} for path, two in spreads.items()}
                rows.append({"chars": size, "texts": len(texts), **figures})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table)
    for path, spread in loaded.items():
        console.print(
            f"append of {DELTA_CHARS:,} while another client starts sessions of {LOAD_CHARS:,}, {path} path: "
            f"P50 {spread.p50:,.0f} us, P90 {spread.p90:,.0f}, P99 {spread.p99:,.0f}, most {spread.maximum:,.0f}"
        )
    if json_path is not None:
        record = {
            "bench": "fresh-path",
            "machine": records.machine(),
            "tokenizer": tokenizer,
            "text": corpus.origin,
            "starts_us": rows,
            "appends_under_load_us": {path: spread.as_dict() for path, spread in loaded.items()},
        }
        records.write_json(json_path, record)
        console.print(f"record: {json_path}")


if __name__ == "__main__":
    main()
