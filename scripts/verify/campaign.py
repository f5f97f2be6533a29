"""A campaign: rounds on all cores until the budget is spent, a divergence enough times, or Ctrl-C; resumable.

Processes are forked once everything is loaded, so that they share the tables; each takes the next round's number and
sends back what it counted. Rounds are a pure function of their number (rounds.py), so that a state file needs only to
hold which are done.

Limits: how a campaign is shown is report.py's business. Linux and other systems that fork.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .checks import Divergence, Tally
from .rounds import Rounds
from .shrink import shrink
from .walks import Coverage

#: Divergences after which a campaign ends: more of the same kind teach nothing.
MAX_DIVERGENCES = 5
#: Seconds between two writings of the state file.
SAVE_S = 10.0
#: Seconds that a process gets to finish its round when the campaign ends.
LEAVE_S = 90.0


class ResumeError(ValueError):
    """The state file is of another campaign: give another file, or the same tokenizer, seed and corpus."""


@dataclass
class Outcome:
    """What a campaign has found so far."""

    tally: Tally = field(default_factory=Tally)
    divergences: list[Divergence] = field(default_factory=list)
    rounds_done: set[int] = field(default_factory=set)
    seconds: float = 0.0
    interrupted: bool = False
    #: Faults of the harness itself (a round that raised): they fail a campaign too, since it checked nothing there.
    faults: list[str] = field(default_factory=list)


class Campaign:
    """Rounds, what came of them, and where that is kept."""

    def __init__(self, rounds: Rounds, fingerprint: dict[str, Any], state: Path | None) -> None:
        self.rounds = rounds
        self.outcome = Outcome()
        self.coverage = Coverage(rounds.subject.compiled)
        self._fingerprint = fingerprint
        self._state = state
        if state is not None and state.exists():
            self._load(json.loads(state.read_text()))

    @property
    def listed_done(self) -> tuple[int, int]:
        """How many listed tasks are done, of how many."""
        done = sum(self.rounds.listed(number) is not None for number in self.outcome.rounds_done)
        return done, len(self.rounds.systematic)

    def run(self, budget_s: float, workers: int, watch: Callable[[Campaign], None]) -> Outcome:
        """Work for `budget_s` seconds on `workers` processes; `watch` is called a few times a second."""
        context = multiprocessing.get_context("fork")
        results: Any = context.Queue()
        stop = context.Event()
        numbers = context.Value("q", 0)
        skip = frozenset(self.outcome.rounds_done)
        started, before, saved = time.monotonic(), self.outcome.seconds, time.monotonic()
        processes = [
            context.Process(target=_work, args=(self.rounds, numbers, skip, stop, results, started + budget_s))
            for _ in range(workers)
        ]
        with _deferred_interrupt() as interrupted:
            for process in processes:
                process.start()
            while any(process.is_alive() for process in processes) or not results.empty():
                with suppress(queue.Empty):
                    self._take(results.get(timeout=0.2))
                now = time.monotonic()
                self.outcome.seconds = before + now - started
                enough = len(self.outcome.divergences) >= MAX_DIVERGENCES or bool(self.outcome.faults)
                if interrupted() or enough or now > started + budget_s:
                    stop.set()
                if now > started + budget_s + LEAVE_S:
                    break
                watch(self)
                if now - saved > SAVE_S:
                    self.save()
                    saved = now
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()
                if process.exitcode and not interrupted():
                    self.outcome.faults.append(f"a process of the campaign died with status {process.exitcode}")
            self.outcome.interrupted = interrupted()
        self.save()
        return self.outcome

    def _take(self, result: dict[str, Any]) -> None:
        self.outcome.rounds_done.add(result["round"])
        self.outcome.tally.merge(result["done"])
        self.coverage.hit[result["hit"]] = True
        if result["divergence"]:
            self.outcome.divergences.append(Divergence(**result["divergence"]))
        if result["fault"]:
            self.outcome.faults.append(result["fault"])

    def save(self) -> None:
        """Write the state file, atomically."""
        if self._state is None:
            return
        content = {
            "campaign": self._fingerprint,
            "seconds": self.outcome.seconds,
            "rounds_done": _as_ranges(self.outcome.rounds_done),
            "checks": self.outcome.tally.done,
            "coverage": np.packbits(self.coverage.hit).tobytes().hex(),
            "divergences": [asdict(divergence) for divergence in self.outcome.divergences],
        }
        with tempfile.NamedTemporaryFile("w", dir=self._state.parent, delete=False) as file:
            json.dump(content, file)
        os.replace(file.name, self._state)

    def _load(self, content: dict[str, Any]) -> None:
        if content["campaign"] != self._fingerprint:
            raise ResumeError("the state file is of another tokenizer, seed, corpus or version")
        self.outcome.seconds = content["seconds"]
        self.outcome.rounds_done = {n for first, last in content["rounds_done"] for n in range(first, last + 1)}
        self.outcome.tally.merge(content["checks"])
        bits = np.frombuffer(bytes.fromhex(content["coverage"]), dtype=np.uint8)
        self.coverage.hit |= np.unpackbits(bits)[: len(self.coverage.hit)].astype(bool)
        self.outcome.divergences = [Divergence(**divergence) for divergence in content["divergences"]]


def do_round(rounds: Rounds, number: int) -> dict[str, Any]:
    """Do one round and return what came of it, in a form that travels between processes."""
    tally, coverage = Tally(), Coverage(rounds.subject.compiled)
    divergence, fault = None, ""
    try:
        divergence = rounds.run(number, tally, coverage)
        if divergence:
            divergence = shrink(rounds.subject, divergence)
    except BaseException as error:  # the reference's own panics are no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        fault = f"round {number}: {traceback.format_exc(limit=-4)}"
    return {
        "round": number,
        "done": tally.done,
        "hit": np.flatnonzero(coverage.hit),
        "divergence": asdict(divergence) if divergence else None,
        "fault": fault,
    }


def _work(rounds: Rounds, numbers: Any, skip: frozenset[int], stop: Any, results: Any, deadline: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    while not stop.is_set() and time.monotonic() < deadline:
        with numbers.get_lock():
            number = numbers.value
            numbers.value += 1
        if number not in skip:
            results.put(do_round(rounds, number))


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C into a flag, so that a campaign ends with a report of what it did."""
    seen = False

    def note(*_: object) -> None:
        nonlocal seen
        seen = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, before)


def _as_ranges(numbers: set[int]) -> list[list[int]]:
    """Return sorted [first, last] ranges.

    >>> _as_ranges({1, 2, 3, 7})
    [[1, 3], [7, 7]]
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
