"""Open-loop load on a tier: bursts of agents' steps from a schedule, by several client processes.

Open-loop: an arrival's time stands in the schedule before anything is sent, late answers delay no later arrival, and a
latency runs from the scheduled time, so a tier that falls behind can't hide it. Two kinds are told apart: `append` (a
step on a session that the tier holds) and `fresh` (a new session's whole first text). A sample of ids is compared with
the reference once the load is over. Limits: one machine; texts are an agent's, sizes and bursts drawn from simple laws.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import multiprocessing.connection
import multiprocessing.synchronize
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer
from tokseam.client import AsyncSession, AsyncTier, connect_async
from tokseam.client.errors import TokseamError

from . import transcripts
from .serve import start_tier
from .tokenizer_catalogue import CATALOGUE, find

Kind = Literal["append", "fresh"]
KINDS: tuple[Kind, ...] = ("append", "fresh")

#: Arrivals within a burst follow one another at this distance, in seconds.
BURST_GAP_S = 0.000_5
#: A client's sessions start with so many characters, before the clock runs.
CONTEXT_CHARS = (20_000, 400_000)
#: Sizes of fresh texts, in characters (log-uniform).
FRESH_CHARS = (2_000, 300_000)
#: A step longer than this is cut: a tail beyond the published P99 would be the only thing seen.
STEP_CHARS = 60_000
#: Seconds between the last client's readiness and the first arrival.
HEAD_START_S = 0.3
#: Seconds that answers may still take after the last arrival.
DRAIN_S = 60.0


class Arrival(NamedTuple):
    """One request of the schedule: when (seconds from the start), what, and a seed for its text."""

    at: float
    kind: Kind
    session: int
    seed: int


@dataclass(frozen=True)
class Load:
    """What is asked of a tier. Rates are for all clients together."""

    seconds: float
    rate: float
    burst: float
    fresh_share: float
    sessions: int
    clients: int
    sample: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """Ids that a session had at a moment, and the text that they are of."""

    kind: Kind
    text: str
    ids: npt.NDArray[np.uint32]


@dataclass
class Report:
    """What one client saw. Latencies in seconds, from the scheduled time."""

    latencies: dict[Kind, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    #: How much later than scheduled a request was handed to the client: large values tell of a slow client, not tier.
    lateness: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    checked: int = 0
    mismatches: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        for kind in KINDS:
            self.latencies[kind] += other.latencies[kind]
        self.lateness += other.lateness
        self.errors += other.errors
        self.unanswered += other.unanswered
        self.checked += other.checked
        self.mismatches += other.mismatches


def schedule(load: Load, client: int) -> list[Arrival]:
    """Return one client's arrivals in order of time: bursts at random moments, of geometric sizes. Pure."""
    rng = random.Random(f"{load.seed} {client}")
    arrivals: list[Arrival] = []
    bursts_per_second = load.rate / load.clients / load.burst
    at = rng.expovariate(bursts_per_second)
    while at < load.seconds:
        size = 1
        while rng.random() > 1 / load.burst:
            size += 1
        for place in range(size):
            kind: Kind = "fresh" if rng.random() < load.fresh_share else "append"
            arrivals.append(Arrival(at + place * BURST_GAP_S, kind, rng.randrange(load.sessions), rng.getrandbits(40)))
        at += rng.expovariate(bursts_per_second)
    return sorted(arrivals)


class Client:
    """One process's part of the load: its sessions, mirrors of their texts, and what it saw."""

    def __init__(self, tier: AsyncTier, tokenizer: Path, load: Load, number: int) -> None:
        self._tier = tier
        #: A tier knows a tokenizer by the hash of its file, whatever name it was given there.
        self._sha256 = hashlib.sha256(tokenizer.read_bytes()).hexdigest()
        self._load = load
        self._number = number
        self._steps, _ = transcripts.transcript(2_000_000, seed=load.seed + number)
        self._sessions: list[AsyncSession] = []
        #: The parts of each session's text, in the order in which their appends were answered: a session answers one
        #: call at a time, in the order of the calls, and `_append` records before anything else can run.
        self._parts: list[list[str]] = []
        self._samples: list[Sample] = []
        self.report = Report()

    async def warm_up(self) -> None:
        """Open the sessions and give each its context."""
        rng = random.Random(f"{self._load.seed} {self._number} contexts")
        for index in range(self._load.sessions):
            text = self._text(rng, log_uniform(rng, *CONTEXT_CHARS))
            session = await self._tier.session(f"bursts-{self._number}-{index}", tokenizer=self._sha256)
            await session.append_patch(text)
            self._sessions.append(session)
            self._parts.append([text])

    async def play(self, arrivals: list[Arrival], start: float) -> None:
        """Send every arrival at its time, whatever has been answered by then; wait for the answers at the end."""
        rng = random.Random(f"{self._load.seed} {self._number} sample")
        wanted = set(rng.sample(range(len(arrivals)), min(len(arrivals), self._load.sample)))
        # Texts are made before the clock runs: making one must not delay another's arrival.
        texts = [self._payload(arrival) for arrival in arrivals]
        tasks: set[asyncio.Task[None]] = set()
        for index, (arrival, text) in enumerate(zip(arrivals, texts, strict=True)):
            due = start + arrival.at
            pause = due - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            self.report.lateness.append(time.monotonic() - due)
            tasks.add(asyncio.create_task(self._send(arrival, index, text, due, index in wanted)))
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
            self.report.unanswered = len(late)
            for task in late:
                task.cancel()

    def check(self, tokenizer: Path) -> None:
        """Compare the sampled ids with the reference's."""
        reference = Tokenizer.from_file(str(tokenizer))
        check_samples(self._samples, reference, self.report)

    def _payload(self, arrival: Arrival) -> str:
        rng = random.Random(arrival.seed)
        if arrival.kind == "fresh":
            return self._text(rng, log_uniform(rng, *FRESH_CHARS))
        return rng.choice(self._steps)[:STEP_CHARS]

    def _text(self, rng: random.Random, chars: int) -> str:
        parts: list[str] = []
        size, at = 0, rng.randrange(len(self._steps))
        while size < chars:
            parts.append(self._steps[at % len(self._steps)])
            size += len(parts[-1])
            at += 1
        return "".join(parts)[:chars]

    async def _send(self, arrival: Arrival, index: int, text: str, due: float, sampled: bool) -> None:
        try:
            if arrival.kind == "fresh":
                session = await self._tier.session(f"bursts-{self._number}-new-{index}", tokenizer=self._sha256)
                await session.append_patch(text)
                self._note("fresh", due, [text], session, sampled)
                await session.close()
            else:
                session = self._sessions[arrival.session]
                await session.append_patch(text)
                self._parts[arrival.session].append(text)
                self._note("append", due, self._parts[arrival.session], session, sampled)
        except TokseamError as error:
            self.report.errors[type(error).__name__] += 1

    def _note(self, kind: Kind, due: float, parts: list[str], session: AsyncSession, sampled: bool) -> None:
        self.report.latencies[kind].append(time.monotonic() - due)
        if sampled:
            self._samples.append(Sample(kind, "".join(parts), np.array(session.ids, dtype=np.uint32)))


def check_samples(samples: list[Sample], reference: Tokenizer, report: Report) -> None:
    """Count the samples, and tell of those whose ids are not the reference's."""
    for sample in samples:
        wanted = np.array(reference.encode(sample.text, add_special_tokens=False).ids, dtype=np.uint32)
        report.checked += 1
        if not np.array_equal(wanted, sample.ids):
            counts = f"{len(sample.ids):,} ids, the reference has {len(wanted):,}"
            report.mismatches.append(f"{sample.kind} on a text of {len(sample.text):,} characters: {counts}")


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    return int(low * (high / low) ** rng.random())


def run_client(
    endpoint: str,
    tokenizer: Path,
    load: Load,
    number: int,
    ready: multiprocessing.synchronize.Barrier,
    pipe: multiprocessing.connection.Connection,
) -> None:
    """Be one client process: connect, warm up, wait for the others, play, check, report."""

    async def live() -> Report:
        arrivals = schedule(load, number)
        tier = await connect_async(endpoint)
        async with tier:
            client = Client(tier, tokenizer, load, number)
            await client.warm_up()
            # Everyone leaves the barrier within a moment of one another.
            await asyncio.to_thread(ready.wait, 300)
            await client.play(arrivals, time.monotonic() + HEAD_START_S)
        client.check(tokenizer)
        return client.report

    try:
        pipe.send(asyncio.run(live()))
    except BaseException as error:
        ready.abort()
        pipe.send(f"{type(error).__name__}: {error}")
    finally:
        pipe.close()


def run_load(endpoint: str, tokenizer: Path, load: Load) -> Report:
    """Put the load on a tier that answers at `endpoint` and has the tokenizer, under whatever name.

    Raises RuntimeError when a client process could not play its part.
    """
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(load.clients)
    pairs = [context.Pipe(duplex=False) for _ in range(load.clients)]
    clients = [
        context.Process(target=run_client, args=(endpoint, tokenizer, load, number, ready, sending), daemon=True)
        for number, (_, sending) in enumerate(pairs)
    ]
    total = Report()
    failures: list[str] = []
    try:
        for client, (_, sending) in zip(clients, pairs, strict=True):
            client.start()
            sending.close()
        for receiving, _ in pairs:
            try:
                report = receiving.recv()
            except EOFError:
                report = "a client process ended without a word"
            if isinstance(report, Report):
                total.add(report)
            else:
                failures.append(str(report))
    finally:
        for client in clients:
            if client.is_alive() and failures:
                client.terminate()
            client.join(10)
    if failures:
        raise RuntimeError("; ".join(failures))
    return total


def quantiles_ms(seconds: list[float]) -> dict[str, float]:
    """Return P50, P90, P99 and the largest, in milliseconds."""
    if not seconds:
        return {}
    values = np.array(seconds) * 1e3
    p50, p90, p99 = np.percentile(values, (50, 90, 99))
    return {"p50": float(p50), "p90": float(p90), "p99": float(p99), "max": float(values.max())}


def show(console: Console, load: Load, report: Report) -> None:
    answered = sum(map(len, report.latencies.values()))
    table = Table(
        title=f"{answered:,} requests in {load.seconds:g} s, bursts of {load.burst:g}, {load.clients} client processes",
        title_justify="left",
    )
    table.add_column("latency from the scheduled time")
    for heading in ("requests", "P50 ms", "P90 ms", "P99 ms", "max ms"):
        table.add_column(heading, justify="right")
    rows: list[tuple[str, list[float]]] = [(kind, report.latencies[kind]) for kind in KINDS]
    for name, seconds in [*rows, ("(sent late by)", report.lateness)]:
        table.add_row(name, f"{len(seconds):,}", *(f"{value:,.2f}" for value in quantiles_ms(seconds).values()))
    console.print(table)
    errors = ", ".join(f"{name} {count}" for name, count in sorted(report.errors.items())) or "none"
    console.print(f"errors: {errors}; unanswered: {report.unanswered}")
    console.print(f"ids checked against the reference: {report.checked}; mismatches: {len(report.mismatches)}")
    for words in report.mismatches[:5]:
        console.print(f"[red]mismatch[/] {words}")


@contextmanager
def a_tier(endpoint: str | None, tokenizer: Path, repair_workers: int, console: Console) -> Iterator[str]:
    """Yield the endpoint of a running tier: the given one, or one of our own for the time of the load."""
    if endpoint is not None:
        yield endpoint
        return
    with tempfile.TemporaryDirectory(prefix="tokseam-") as folder:
        try:
            tier = start_tier({"t": tokenizer}, endpoint=f"ipc://{folder}/front.sock", repair_workers=repair_workers)
        except RuntimeError as error:
            raise click.ClickException(str(error)) from None
        try:
            console.print(tier.ready, soft_wrap=True)
            yield tier.endpoint
        finally:
            tier.stop()


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--endpoint", help="A running tier that has the tokenizer; else one is started.")
@click.option("--tokenizer", default="deepseek_v4", help="A name of the catalogue, or a path to a tokenizer.json.")
@click.option("--repair-workers", default=2, type=click.IntRange(min=1), help="Of a tier that is started here.")
@click.option("--seconds", default=10.0, type=click.FloatRange(min=0.1), help="Length of the schedule.")
@click.option("--rate", default=200.0, type=click.FloatRange(min=0.1), help="Arrivals a second, all clients together.")
@click.option("--burst", default=8.0, type=click.FloatRange(min=1), help="Mean arrivals of a burst.")
@click.option("--fresh-share", default=0.03, type=click.FloatRange(0, 1), help="Share of new sessions among arrivals.")
@click.option("--sessions", default=16, type=click.IntRange(min=1), help="Sessions of each client.")
@click.option("--clients", default=2, type=click.IntRange(min=1), help="Client processes.")
@click.option("--sample", default=30, type=click.IntRange(min=0), help="Answers of each client that are checked.")
@click.option("--seed", default=0, help="Of the schedule and the texts.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
def main(
    endpoint: str | None,
    tokenizer: str,
    repair_workers: int,
    seconds: float,
    rate: float,
    burst: float,
    fresh_share: float,
    sessions: int,
    clients: int,
    sample: int,
    seed: int,
    json_path: Path | None,
) -> None:
    """Replay bursts of an agent fleet's steps on a tier. Exit code 1 on a wrong id, an error or a missing answer."""
    console = Console()
    path = find(tokenizer) if tokenizer in CATALOGUE else Path(tokenizer)
    if path is None or not path.is_file():
        raise click.ClickException(f"no copy of {tokenizer}: run scripts/fetch_tokenizers, or name a tokenizer.json")
    load = Load(seconds, rate, burst, fresh_share, sessions, clients, sample, seed)
    with a_tier(endpoint, path, repair_workers, console) as at:
        try:
            report = run_load(at, path, load)
        except RuntimeError as error:
            raise click.ClickException(str(error)) from None
    show(console, load, report)
    if json_path is not None:
        record: dict[str, Any] = {
            "load": asdict(load),
            "latency_ms": {kind: quantiles_ms(report.latencies[kind]) for kind in KINDS},
            "lateness_ms": quantiles_ms(report.lateness),
            "requests": {kind: len(report.latencies[kind]) for kind in KINDS},
            "errors": dict(report.errors),
            "unanswered": report.unanswered,
            "checked": report.checked,
            "mismatches": report.mismatches,
        }
        json_path.write_text(json.dumps(record, indent=1) + "\n")
    if report.mismatches or report.errors or report.unanswered:
        sys.exit(1)


if __name__ == "__main__":
    main()
