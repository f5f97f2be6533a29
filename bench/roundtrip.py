"""One append's round trip through a tier, beside a bare ZeroMQ echo through three processes that stand where its do.

The claim: an append of 1,400 characters to a session of 1 M takes at most 1.3 times a bare echo of the same bytes. The
echo (echo.py) is the simplest loop that pyzmq can have: client, proxy and worker forward the very frames of an append's
request and reply; its worker is pinned where the tier's is, and so is the I/O thread of either; the proxy, like the
broker, runs where the kernel puts it. Echo, append and ping take turns in blocks within one run,
in a new order each round. Ids are compared with the reference before anything is timed, and again at the end.

A second table says where an append's time goes: the pure steps of client, broker and worker, one after the other in
this process (steps.py), warm and cold. In a tier they stand between the two, since three processes empty each other's
caches: echo and warm steps are the least that an append can take, echo and cold steps about what it does.

Not measured here: many clients at a time (scripts/replay_bursts), asyncio's own time.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import zmq
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from support import families
from tokseam.broker.protocol import Buffer
from tokseam.client import connect
from tokseam.client.sync import Session, Tier
from tokseam.scripts import transcripts
from tokseam.scripts.serve import running_tier
from tokseam.workers import pinning

from . import records, steps
from .spread import Spread

CONTEXT_CHARS = 1_000_000
DELTA_CHARS = 1_400  # the median step of a coding agent
MOST_RATIO = 1.3
#: Calls of one kind in a row before the next kind has its turn.
BLOCK = 10
WARM_UP_ROUNDS = 10
#: Blocks of steps in one process. A cold one takes some ten milliseconds.
WARM_STEPS, COLD_STEPS = 200, 20
#: Families that a tier can load from one file.
FAMILIES = tuple(name for name in families.NATIVE if name not in ("cl100k", "o200k"))


class Echo:
    """A proxy and a worker in processes of their own, and the client's end."""

    def __init__(self, folder: Path, reply: list[Buffer], cpu: int | None) -> None:
        (folder / "reply").write_bytes(pickle.dumps(reply))
        front, back = f"ipc://{folder}/e", f"ipc://{folder}/e.w"
        child = [sys.executable, "-m", "tokseam.workers.child", "--parent", str(os.getpid())]
        seat = [] if cpu is None else ["--cpus", str(cpu)]
        commands = [
            [*child, "bench.echo", "proxy", front, back],
            [*child, *seat, "bench.echo", "worker", back, str(folder / "reply")],
        ]
        # Sessions of their own, as the tier's processes have: the kernel shares its cores out by session.
        self._processes = [
            subprocess.Popen(command, cwd=records.CHECKOUT, start_new_session=True) for command in commands
        ]
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.RCVTIMEO, 20_000)
        self.socket.connect(front)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._context.destroy(0)


@contextmanager
def echoing(folder: Path, reply: list[Buffer], cpu: int | None) -> Iterator[Echo]:
    echo = Echo(folder, reply, cpu)
    try:
        yield echo
    finally:
        echo.close()


def check_equal(session: Session, family: families.Family, text: str, delta: str) -> None:
    """Refuse to time what is not exact."""
    session.append_patch(text)
    session.append_patch(delta)
    if session.ids != family.reference.ids(text + delta):
        raise click.ClickException("the ids are not the reference's: nothing is timed")
    take_back(session)


def check_still_equal(session: Session, family: families.Family, delta: str) -> None:
    session.append_patch(delta)
    if session.ids != family.reference.ids(session.text):
        raise click.ClickException("the ids are not the reference's after the run: its figures are worth nothing")


def take_back(session: Session) -> None:
    session.edit(CONTEXT_CHARS, len(session.text), "")


def time_calls(
    echo: Echo, request: list[Buffer], tier: Tier, session: Session, deltas: list[str], advance: Callable[[], None]
) -> dict[str, list[int]]:
    """Time echoes, appends and pings in blocks, in a new order each round. Every block but an echo's is as long."""
    rng = random.Random(1)
    kinds = ["echo", "append", "ping"]
    taken: dict[str, list[int]] = {kind: [] for kind in kinds}
    clock = time.perf_counter_ns
    send, receive = echo.socket.send_multipart, echo.socket.recv_multipart
    append, ping = session.append_patch, tier.ping
    gc.collect()
    for first in range(0, len(deltas), BLOCK):
        rng.shuffle(kinds)
        for kind in kinds:
            block = []
            for delta in deltas[first : first + BLOCK]:
                if kind == "echo":
                    start = clock()
                    send(request)
                    receive()
                elif kind == "append":
                    start = clock()
                    append(delta)
                else:
                    start = clock()
                    ping()
                block.append(clock() - start)
            if kind == "append":
                take_back(session)
            if first >= WARM_UP_ROUNDS * BLOCK:
                taken[kind] += block
        advance()
    return taken


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--tokenizer", default="deepseek_v4", type=click.Choice(FAMILIES), help="Which family to use.")
@click.option("--rounds", default=300, type=click.IntRange(min=WARM_UP_ROUNDS + 1), help=f"Blocks of {BLOCK} calls.")
@click.option("--shadow-rate", default=0.0, help="Share of answers that the tier's verifier checks meanwhile.")
@click.option("--serve", "arguments", multiple=True, help="One more argument of `tokseam serve`; may be repeated.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
def main(tokenizer: str, rounds: int, shadow_rate: float, arguments: tuple[str, ...], json_path: Path | None) -> None:
    """Time an append through a broker beside a bare echo. Exit code 1 when the ratio of medians is over 1.3."""
    console = Console()
    family = families.load(tokenizer)
    if family is None:
        raise click.ClickException(f"no copy of {tokenizer}: run scripts/fetch_tokenizers --only {tokenizer}")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    parts, origin = transcripts.transcript(2 * CONTEXT_CHARS)
    whole = "".join(parts)
    rng = random.Random(0)
    cuts = [rng.randrange(CONTEXT_CHARS, len(whole) - DELTA_CHARS) for _ in range(BLOCK * rounds)]
    deltas = [whole[cut : cut + DELTA_CHARS] for cut in cuts]
    text = whole[:CONTEXT_CHARS]
    console.print(f"{tokenizer} ({family.engine.status}), {origin}; steps in one process first")
    near = steps.Steps(family.engine, text)
    in_process = near.time(deltas[: WARM_STEPS * BLOCK], BLOCK)
    cold = near.time(deltas[: COLD_STEPS * BLOCK], BLOCK, cold=True)
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    (seat,) = pinning.plan(1, pinning.allowed_cores())
    try:
        with (
            echoing(folder, near.reply, None if seat is None else seat.cpu) as echo,
            running_tier(
                {"t": family.source},
                endpoint=f"ipc://{folder}/f",
                repair_workers=1,
                arguments=["--shadow-rate", str(shadow_rate), *arguments],
            ) as running,
            connect(running.endpoint) as tier,
            tier.session("roundtrip", tokenizer="t") as session,
            Progress(console=console, transient=True) as progress,
        ):
            check_equal(session, family, text, deltas[0])
            task = progress.add_task("rounds", total=rounds)
            taken = time_calls(echo, near.request, tier, session, deltas, lambda: progress.advance(task))
            check_still_equal(session, family, deltas[-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    spreads = {kind: Spread.of_ns(sample) for kind, sample in taken.items()}
    ratio = spreads["append"].p50 / spreads["echo"].p50
    holds = ratio <= MOST_RATIO
    _print(console, spreads, in_process, cold)
    verdict = "[green]holds[/]" if holds else "[red]does not hold[/]"
    console.print(f"append / echo = {ratio:.2f} (P50); at most {MOST_RATIO}: {verdict}")
    if json_path is not None:
        record: dict[str, Any] = {
            "bench": "roundtrip",
            "machine": records.machine(),
            "tokenizer": tokenizer,
            "status": family.engine.status,
            "text": origin,
            "context_chars": CONTEXT_CHARS,
            "delta_chars": DELTA_CHARS,
            "serve": ["--shadow-rate", str(shadow_rate), *arguments],
            "request_bytes": [len(frame) for frame in near.request],
            "reply_bytes": [len(frame) for frame in near.reply],
            "us": {kind: spread.as_dict() for kind, spread in spreads.items()},
            "steps_us": {step.name: spread.as_dict() for step, spread in in_process.items()},
            "cold_steps_us": {step.name: spread.as_dict() for step, spread in cold.items()},
            "ratio": ratio,
            "holds": holds,
        }
        records.write_json(json_path, record)
        console.print(f"record: {json_path}")
    if not holds:
        sys.exit(1)


def _print(
    console: Console, spreads: dict[str, Spread], warm: dict[steps.Step, Spread], cold: dict[steps.Step, Spread]
) -> None:
    table = Table(title=f"A round trip, us: an append of {DELTA_CHARS:,} characters behind {CONTEXT_CHARS:,}")
    for heading in ("", "min", "P50", "P90", "P99", "beside the echo"):
        table.add_column(heading, justify="right" if heading else "left")
    for kind, spread in spreads.items():
        figures = (spread.minimum, spread.p50, spread.p90, spread.p99)
        beside = f"{spread.p50 / spreads['echo'].p50:.2f}"
        table.add_row(kind, *(f"{figure:,.1f}" for figure in figures), beside)
    console.print(table)
    table = Table(title="Where an append's time goes: its steps in one process, us")
    for heading in ("step", "min", "P50", "P99", "cold P50", "waited for"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    for step, spread in warm.items():
        figures = (spread.minimum, spread.p50, spread.p99, cold[step].p50)
        table.add_row(step.name, *(f"{figure:,.1f}" for figure in figures), "yes" if step.waited_for else "")
    waited = [sum(taken[step].p50 for step in warm if step.waited_for) for taken in (warm, cold)]
    table.add_row("sum of what is waited for", "", f"{waited[0]:,.1f}", "", f"{waited[1]:,.1f}", "")
    console.print(table)


if __name__ == "__main__":
    main()
