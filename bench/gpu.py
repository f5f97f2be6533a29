"""`python -m bench gpu`: the GPU path on this machine's device, beside the floor of each launch (kernels/cuda/cost.py).

Single requests of 1 K to 8 M characters, each a text that was never encoded before (fresh) and one again and again
(steady), delivered as arrays and as lists; batches of documents in English, Chinese and a chat template; small
documents; pre-tokenization and each kernel alone, by the device's clock; a request on an idle host and on one whose
every core is taken; and toktier's GPU path on such texts where it is installed. Ids are compared before anything is
timed.

It keeps a budget: what would not fit is left out, and the record says so. Limits: one tokenizer; documents that the
device leaves to the CPU are counted, and their time by the CPU is not in these figures.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table
from tokseam.kernels import engine
from tokseam.kernels.cuda import cost
from tokseam.kernels.cuda.launcher import Launcher, open_launcher
from tokseam.kernels.errors import NoDeviceError

from . import records, subjects, texts
from .spread import quantile

#: Characters of a single request, how many fresh ones of it, and seconds that a size is thought to take.
SINGLE = (
    *((1_000, 40, 1.0), (10_000, 40, 1.0), (50_000, 40, 2.0), (100_000, 30, 3.0)),
    *((1_000_000, 10, 10.0), (2_000_000, 4, 10.0), (4_000_000, 3, 15.0), (8_000_000, 2, 20.0)),
)
BATCH_KINDS = ("english", "chinese", "chat")
#: Characters of a batch, and of each of its documents.
BATCH_CHARS, DOCUMENT_CHARS = 4_000_000, 20_000
#: Documents of a batch of small ones, and characters of each.
SMALL_DOCUMENTS, SMALL_CHARS = 8_192, 64
#: Of the request under load: its characters, how often it is sent, and processes a core that take the host.
LOAD_CHARS, LOAD_REQUESTS, LOAD_PER_CORE = 50_000, 200, 2
REPEATS = 20


class Document(NamedTuple):
    text: bytes
    add_special_tokens: bool = False
    split_special_tokens: bool = False
    marked: bool = False


class WrongIdsError(Exception):
    """The device's ids are not the engine's: nothing is timed."""


@dataclass
class Budget:
    """Seconds that are left, and what was left out for want of them."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds

    @property
    def left(self) -> float:
        return self._end - self.clock()

    def allows(self, what: str, seconds: float) -> bool:
        """Whether there is time for something; notes down what there is none for."""
        if self.left >= seconds:
            return True
        self.left_out.append(what)
        return False


class Bench:
    """Measures a launcher with one tokenizer. `scale`: of all sizes and counts, for trying the bench itself."""

    def __init__(
        self, launcher: Launcher, tokenizer: engine.Tokenizer, literals: Sequence[str], budget: Budget, scale: float = 1
    ) -> None:
        self.launcher = launcher
        self.tokenizer = tokenizer
        self.budget = budget
        self.scale = scale
        self._literals = literals
        self._corpora: dict[str, texts.Corpus] = {}
        self._card = next((card for card in cost.CARDS if card.name.split(" (")[0] in launcher.name), None)

    def _scaled(self, count: int) -> int:
        return max(1, int(count * self.scale))

    def _take(self, kind: str, chars: int) -> bytes | None:
        """Return text that was not given yet; None where there is no more."""
        if kind not in self._corpora:
            self._corpora[kind] = texts.Corpus(kind, self._literals)
        try:
            return self._corpora[kind].take(chars).encode()
        except texts.ExhaustedError:
            return None

    def encode(self, batch: Sequence[bytes]) -> list[engine.Marked | None]:
        return self.launcher.encode(self.tokenizer, [Document(text) for text in batch])

    def check(self, batch: Sequence[bytes]) -> int:
        """Compare a batch's ids with the engine's. Returns how many documents are left to the CPU."""
        found = self.encode(batch)
        for text, one in zip(batch, found, strict=True):
            if one is not None and one.ids.tolist() != self.tokenizer.encode(text).tolist():
                raise WrongIdsError(f"{len(text)} bytes that begin with {text[:60]!r}")
        return sum(one is None for one in found)

    def _timed(self, batch: Sequence[bytes], as_list: bool = False) -> float:
        start = time.perf_counter()
        found = self.encode(batch)
        if as_list:
            for one in found:
                if one is not None:
                    one.ids.tolist()
        return time.perf_counter() - start

    def _floor(self, batch: Sequence[bytes]) -> dict[str, Any]:
        """Return what the kernels take by the device's clock, beside what they must take."""
        measured = self.launcher.measure(self.tokenizer, batch, REPEATS)
        if measured is None:
            return {}
        size = measured.totals["bytes"]
        row: dict[str, Any] = {
            "kernels_ms": 1e3 * measured.kernels,
            "pre_tokenization_ms": 1e3 * measured.pre_tokenization,
            "pre_tokenization_gb_per_s": size / measured.pre_tokenization / 1e9 if measured.pre_tokenization else 0.0,
        }
        if self._card is not None:
            profile = cost.Profile.of(measured.totals)
            least = cost.floor(self._card, size, measured.capacity, measured.shape, profile)
            row |= {"floor_kernels_ms": 1e3 * least.device, "floor_request_ms": 1e3 * least.request}
        return row

    # ---- what is measured ----

    def single(self) -> Iterator[dict[str, Any]]:
        """Requests by size."""
        for full, count, seconds in SINGLE:
            chars = self._scaled(full)
            if not self.budget.allows(f"requests of {chars:,} characters", seconds * min(1.0, self.scale)):
                continue
            taken = [self._take("code", chars) for _ in range(2 * max(2, self._scaled(count)) + 1)]
            samples = [text for text in taken if text is not None]
            if len(samples) < 3:
                self.budget.left_out.append(f"requests of {chars:,} characters (no more text)")
                continue
            steady, *rest = samples
            left = self.check([steady])
            self._timed([steady])
            half = len(rest) // 2
            as_arrays = sorted(int(1e9 * self._timed([text])) for text in rest[:half])
            as_lists = sorted(int(1e9 * self._timed([text], as_list=True)) for text in rest[half:])
            again = sorted(int(1e9 * self._timed([steady])) for _ in range(REPEATS))
            left += sum(self.check([text]) for text in rest[:2])
            yield {
                "what": "single",
                "chars": chars,
                "samples": half,
                "left_to_cpu": left,
                "fresh_array_ms": quantile(as_arrays, 0.5) / 1e6,
                "fresh_array_p90_ms": quantile(as_arrays, 0.9) / 1e6,
                "fresh_list_ms": quantile(as_lists, 0.5) / 1e6,
                "steady_array_ms": quantile(again, 0.5) / 1e6,
                **self._floor([steady]),
            }

    def batches(self) -> Iterator[dict[str, Any]]:
        """Batches by kind of text."""
        for kind in BATCH_KINDS:
            if not self.budget.allows(f"batches of {kind}", 10 * min(1.0, self.scale)):
                continue
            document, count = self._scaled(DOCUMENT_CHARS), self._scaled(BATCH_CHARS // DOCUMENT_CHARS)
            taken = [self._take(kind, document) for _ in range(count)]
            batch = [text for text in taken if text is not None]
            if not batch:
                self.budget.left_out.append(f"batches of {kind} (no text here)")
                continue
            left = self.check(batch)
            size = sum(map(len, batch))
            seconds = sorted(int(1e9 * self._timed(batch)) for _ in range(REPEATS))
            yield {
                "what": "batch",
                "kind": kind,
                "documents": len(batch),
                "bytes": size,
                "left_to_cpu": left,
                "array_ms": quantile(seconds, 0.5) / 1e6,
                "gb_per_s": size / quantile(seconds, 0.5),
                **self._floor(batch),
            }

    def small_documents(self) -> Iterator[dict[str, Any]]:
        if not self.budget.allows("small documents", 5 * min(1.0, self.scale)):
            return
        chars, count = SMALL_CHARS, self._scaled(SMALL_DOCUMENTS)
        whole = (self._take("code", chars * count) or b"").decode()
        batch = [whole[at : at + chars].encode() for at in range(0, len(whole), chars)]
        left = self.check(batch)
        seconds = sorted(int(1e9 * self._timed(batch)) for _ in range(REPEATS))
        arrays = []
        for _ in range(REPEATS):
            start = time.perf_counter_ns()
            self.launcher.encode_arrays(self.tokenizer, batch)
            arrays.append(time.perf_counter_ns() - start)
        arrays.sort()
        yield {
            "what": "small documents",
            "documents": len(batch),
            "left_to_cpu": left,
            "us_per_document": quantile(seconds, 0.5) / 1e3 / max(1, len(batch)),
            "us_per_document_arrays": quantile(arrays, 0.5) / 1e3 / max(1, len(batch)),
            **self._floor(batch),
        }

    def under_load(self) -> Iterator[dict[str, Any]]:
        """One request on an idle host, and with other processes on every core."""
        text = self._take("code", self._scaled(LOAD_CHARS))
        if text is None or not self.budget.allows("a loaded host", 10 * min(1.0, self.scale)):
            return
        self.check([text])
        busy = LOAD_PER_CORE * (os.cpu_count() or 1)
        for host, processes in (("idle", 0), ("loaded", busy)):
            with busy_processes(processes):
                seconds = sorted(int(1e9 * self._timed([text])) for _ in range(max(10, self._scaled(LOAD_REQUESTS))))
            yield {
                "what": "load",
                "host": host,
                "busy_processes": processes,
                "p50_ms": quantile(seconds, 0.5) / 1e6,
                "p99_ms": quantile(seconds, 0.99) / 1e6,
            }

    def kernels(self) -> Iterator[dict[str, Any]]:
        """Each kernel over a request of a million characters, beside its own floor in memory and operations."""
        text = self._take("code", self._scaled(1_000_000))
        if text is None or not self.budget.allows("each kernel", 5 * min(1.0, self.scale)):
            return
        measured = self.launcher.measure(self.tokenizer, [text], REPEATS)
        if measured is None:
            return
        size = measured.totals["bytes"]
        rows = cost.rows(measured.capacity, measured.shape, cost.Profile.of(measured.totals))
        for row in rows:
            found: dict[str, Any] = {
                "what": "kernel",
                "kernel": row.kernel,
                "launches": row.launches,
                "us": 1e6 * measured.by_kernel[row.kernel],
            }
            if self._card is not None:
                by_memory = size * row.bytes_moved / self._card.memory_bytes_per_s
                by_operations = size * row.operations / self._card.operations_per_s
                found["floor_us"] = 1e6 * max(by_memory, by_operations, row.launches * cost.NODE_S)
            yield found

    def toktier(self, subject: subjects.Subject) -> Iterator[dict[str, Any]]:
        """toktier's GPU path over requests of the same sizes."""
        try:
            from .toktier_store import load

            other = load(subject, device="cuda")
        except Exception as error:  # whatever it or its libraries say; the record has it
            self.budget.left_out.append(f"toktier ({type(error).__name__}: {str(error).splitlines()[0][:200]})")
            return
        for full, count, seconds in SINGLE[3:]:
            chars = self._scaled(full)
            if not self.budget.allows(f"toktier, {chars:,} characters", seconds):
                continue
            taken = [self._take("code", chars) for _ in range(1 + max(2, count // 2))]
            samples = [text.decode() for text in taken if text is not None]
            if len(samples) < 2:
                continue
            if list(other.encode(samples[0]).ids) != self.tokenizer.encode(samples[0]).tolist():
                self.budget.left_out.append("toktier (its ids are others)")
                return
            times = []
            for text in samples[1:]:
                start = time.perf_counter_ns()
                other.encode(text)
                times.append(time.perf_counter_ns() - start)
            yield {
                "what": "toktier",
                "chars": chars,
                "samples": len(times),
                "fresh_ms": quantile(sorted(times), 0.5) / 1e6,
            }


def _spin(ready: Any) -> None:
    ready.set()
    while True:
        sum(range(10_000))


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processes computing; they end with the block, and with this process."""
    context = multiprocessing.get_context("spawn")
    started = []
    try:
        for _ in range(count):
            ready = context.Event()
            process = context.Process(target=_spin, args=(ready,), daemon=True)
            process.start()
            started.append((process, ready))
        for _, ready in started:
            ready.wait(30)
        yield
    finally:
        for process, _ in started:
            process.kill()
        for process, _ in started:
            process.join()


def tables(rows: Sequence[dict[str, Any]]) -> Iterator[Table]:
    """Yield a table for each kind of rows."""
    for what in dict.fromkeys(row["what"] for row in rows):
        of_kind = [row for row in rows if row["what"] == what]
        columns = [name for name in dict.fromkeys(name for row in of_kind for name in row) if name != "what"]
        table = Table(title=what, title_justify="left")
        for name in columns:
            table.add_column(name.replace("_", " "), justify="right")
        for row in of_kind:
            table.add_row(*(_cell(row.get(name, "")) for name in columns))
        yield table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value < 100 else f"{value:.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def record_path(card: str) -> Path:
    """Return where the record of a card lies."""
    return records.RESULTS / f"gpu-{re.sub(r'[^a-z0-9]+', '-', card.lower()).strip('-')}.json"


def measured(bench: Bench, subject: subjects.Subject | None) -> Iterator[dict[str, Any]]:
    """Yield all rows, what matters most first."""
    yield from bench.single()
    yield from bench.batches()
    yield from bench.small_documents()
    yield from bench.kernels()
    yield from bench.under_load()
    if subject is not None:
        yield from bench.toktier(subject)


@click.command()
@click.option("--tokenizer", "name", default="qwen3", show_default=True, help="A name of the catalogue, or a path.")
@click.option("--budget", "seconds", type=float, default=180.0, show_default=True, help="Seconds that it may take.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), default=None, help="By default gpu-<card>.json.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Of sizes and counts, to try the bench.")
def main(name: str, seconds: float, json_path: Path | None, scale: float) -> None:
    """Measure the GPU path. Exit code 1 for wrong ids or a device that fails, 2 where there is none."""
    budget = Budget(seconds)
    console = Console(width=None if sys.stdout.isatty() else 200)
    try:
        launcher = open_launcher()
    except NoDeviceError as error:
        click.echo(f"no GPU: {error}", err=True)
        sys.exit(2)
    subject = subjects.load(name)
    tokenizer = engine.load(subject.source)
    bench = Bench(launcher, tokenizer, subject.literals, budget, scale)
    rows: list[dict[str, Any]] = []
    wrong = ""
    try:
        for row in measured(bench, subject):
            rows.append(row)
            console.print(" ".join(f"{key}={_cell(value)}" for key, value in row.items()), markup=False)
    except Exception as error:  # a device that is lost too: the record has what was measured until then
        wrong = f"{type(error).__name__}: {error}"
        console.print(f"stopped: {wrong}", style="red", markup=False)
    path = json_path or record_path(launcher.name)
    records.write_json(
        path,
        {
            "bench": "gpu",
            "device": launcher.name,
            "tokenizer": name,
            "machine": records.machine(),
            "memory": launcher.memory._asdict(),
            "counters": vars(launcher.counters),
            "left_out": budget.left_out,
            "wrong": wrong,
            "rows": rows,
        },
    )
    launcher.close()
    for table in tables(rows):
        console.print(table)
    for what in budget.left_out:
        console.print(f"left out: {what}", markup=False)
    console.print(f"record: {path}", markup=False)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(prog_name="python -m bench gpu")
