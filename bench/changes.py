"""What the cases `append` and `edit` share: one job is one context and one kind of change, at every size of change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.table import Table

from . import beds, marking, peers, report, subjects
from . import figures as drawing
from .case import Job, Options, Row
from .peers import NAMES, OURS, QUICK, Loaded
from .timing import Run, Sample, in_turn, quiet, timed

CONTEXTS = (100_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
QUICK_CONTEXTS = (100_000, 1_000_000)
DELTAS = (16, 256, 1_400, 10_000, 38_000, 100_000)
QUICK_DELTAS = (16, 1_400, 38_000)
#: Of fewer runs, the one in a thousand is not told.
ENOUGH_FOR_P999 = 1_000
#: Changes are cut from this much text behind all contexts: the same at every context, since text of more kinds takes
#: longer to encode, and from behind all of them.
SOURCE_CHARS = 1_000_000
#: Turns of the peers; before each, a share of our rounds is run, so that all see the same machine.
TURNS = 3
#: A peer that takes longer for the whole text, in seconds, has one turn: three of each would take hours.
SLOW_PEER_S = 1.0
#: What we do in time of the context (a list of all ids, a search for the change) is done so many times less often.
SLOWER = 10
STEPS: dict[str, Callable[[random.Random, str, int, int], beds.Step]] = {
    "append": beds.append_step,
    "middle": beds.middle_step,
    "tail": beds.tail_step,
}


def jobs(kind: str, options: Options) -> list[Job]:
    return [
        {
            "tokenizer": tokenizer,
            "kind": kind,
            "chars": chars,
            "deltas": list(QUICK_DELTAS if options.quick else DELTAS),
            "rounds": 30 if options.quick else 300,
            "peers": list(options.peers or (QUICK if options.quick else NAMES)),
            "cores": 1,
        }
        for tokenizer in (options.tokenizers or ("qwen3",))
        for chars in (options.sizes or (QUICK_CONTEXTS if options.quick else CONTEXTS))
    ]


def run(job: Job) -> list[Row]:
    from tokseam.client import Embedded
    from tokseam.scripts import transcripts

    kind, context = job["kind"], job["chars"]
    subject = subjects.load(job["tokenizer"])
    steps, origin = transcripts.transcript(max(context, *CONTEXTS) + SOURCE_CHARS)
    whole = "".join(steps)
    text, source = whole[:context], whole[-SOURCE_CHARS:]
    without = job.get("without", {})
    ready, missing = peers.load_all([name for name in job["peers"] if name not in without], subject)
    rivals = [one for one in ready if one.name != OURS]
    reasons = {one.name: one.reason for one in missing} | without
    rows: list[Row] = []
    with ExitStack() as stack:
        ours = list(beds.ways(Embedded({"t": subject.source}), OURS, text, kind))
        try:
            tier = stack.enter_context(_tier(subject))
        except Exception as error:
            reasons[f"{OURS} broker"] = f"{type(error).__name__}: {error}"[:300]
        else:
            ours += list(beds.ways(tier, f"{OURS} broker", text, kind))
        ids = beds.reference_ids(subject, text)
        for peer in rivals:
            with marking.at_work(peer.name):
                peers.compare(peer, text, ids)  # the context is in its caches from here on
        for delta in job["deltas"]:
            if delta >= context // 2:
                continue
            given = _contest(job, subject, source, text, ids, delta, ours, rivals)
            given |= {name: {"us": None, "missing": reason} for name, reason in reasons.items()}
            rows.append(
                {
                    **{key: job[key] for key in ("tokenizer", "kind", "chars", "cores")},
                    "delta": delta,
                    "origin": origin,
                    "peers": given,
                }
            )
    return rows


def _tier(subject: subjects.Subject) -> Any:
    return beds.broker(subject)


def _contest(
    job: Job,
    subject: subjects.Subject,
    source: str,
    text: str,
    ids: Any,
    delta: int,
    ours: list[beds.Way],
    rivals: list[Loaded],
) -> dict[str, Any]:
    """Check everybody on one step, then time: a share of our rounds, every peer once, and again. `ids`: of `text`."""
    make = STEPS[job["kind"]]
    rng = random.Random(delta)
    first = make(rng, source, len(text), delta)
    after = first.applied(text)
    wanted = beds.reference_ids(subject, after)
    differs = {way.name: beds.check(way, text, first, ids, wanted) for way in ours}
    turns: dict[str, int] = {}
    for peer in rivals:
        started = time.monotonic()
        with marking.at_work(peer.name):
            differs[peer.name] = peers.compare(peer, after, wanted)
        turns[peer.name] = 1 if time.monotonic() - started > SLOW_PEER_S else TURNS
    taken: dict[str, list[Run]] = {}
    for turn in range(TURNS):
        with quiet():
            for way in ours:
                share = max(2, job["rounds"] // TURNS // (1 if way.patch and not way.whole else SLOWER))
                taken.setdefault(way.name, []).extend(_ours(way, rng, make, source, text, delta, share))
            step = make(rng, source, len(text), delta)
            after = step.applied(text)
            for index in in_turn(len(rivals), turn):
                peer = rivals[index]
                if differs[peer.name].startswith("failed") or turn >= turns[peer.name]:
                    continue
                try:
                    if peer.append is not None and job["kind"] == "append":
                        call = peer.append(text + step.filler, step.replacement)
                    else:
                        call = _full(peer, after)
                    with marking.at_work(peer.name):
                        run, _ = timed(call)
                    taken.setdefault(peer.name, []).append(run)
                except Exception as error:
                    differs[peer.name] = f"failed: {type(error).__name__}: {error}"[:300]
    versions = {peer.name: {"version": peer.version, "form": peer.form, "turns": turns[peer.name]} for peer in rivals}
    return {
        name: {
            "us": Sample.of(taken[name]).as_dict() if name in taken else None,
            "differs": differing,
            **versions.get(name, {}),
        }
        for name, differing in differs.items()
    }


def _full(peer: Loaded, text: str) -> Callable[[], Any]:
    return lambda: peer.encode(text)


def _ours(
    way: beds.Way,
    rng: random.Random,
    make: Callable[[random.Random, str, int, int], beds.Step],
    source: str,
    text: str,
    delta: int,
    rounds: int,
) -> list[Run]:
    runs: list[Run] = []
    for _ in range(rounds):
        step = make(rng, source, len(text), delta)
        way.fill(step)
        runs.append(timed(way.prepare(text, step))[0])
        way.undo(text, step)
    return runs


def tables(rows: list[Row]) -> list[Table]:
    made: list[Table] = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        for kind in dict.fromkeys(row["kind"] for row in rows):
            mine = [row for row in rows if (row["tokenizer"], row["kind"]) == (tokenizer, kind)]
            if mine:
                title = f"{tokenizer}, {kind}: microseconds (median)"
                made += [report.contest_table(title, mine, ("chars", "delta"), 1.0), _spread(tokenizer, kind, mine)]
    return made


def _spread(tokenizer: str, kind: str, rows: list[Row]) -> Table:
    table = Table(title=f"{tokenizer}, {kind}: ours embedded, microseconds, and the median's growth with the context")
    for heading in ("delta", "chars", "runs", "min", "P50", "P90", "P99", "P99.9", "CPU P50", "/ smallest context"):
        table.add_column(heading, justify="right")
    for delta in sorted({row["delta"] for row in rows}):
        mine = [row for row in rows if row["delta"] == delta and row["peers"].get(OURS, {}).get("us")]
        for row in mine:
            us = row["peers"][OURS]["us"]
            figures_us = [us[key] for key in ("minimum", "p50", "p90", "p99", "p999", "cpu_p50")]
            growth = us["p50"] / mine[0]["peers"][OURS]["us"]["p50"]
            cells = [f"{figure:,.1f}" for figure in figures_us]
            if us["count"] < ENOUGH_FOR_P999:
                cells[4] = "-"
            table.add_row(f"{delta:,}", f"{row['chars']:,}", f"{us['count']:,}", *cells, f"{growth:.2f}")
    return table


def figures(rows: list[Row], folder: Path) -> list[Path]:
    made: list[Path] = []
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        for kind in dict.fromkeys(row["kind"] for row in rows):
            mine = [row for row in rows if (row["tokenizer"], row["kind"]) == (tokenizer, kind)]
            made += drawing.by_context(folder / f"{kind}-{tokenizer}", f"{tokenizer}: {kind}", mine)
    return made
