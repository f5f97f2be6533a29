"""Interleaved timing on pinned cores: wall time and processor time of every run, medians and spreads."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .spread import Spread

#: Set before any library is imported, for a job on `n` cores: thread pools read them once.
THREAD_VARIABLES = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "TOKIO_WORKER_THREADS", "RAYON_RS_NUM_CPUS")


def thread_environment(cores: int) -> dict[str, str]:
    """Return the environment of a job that may use `cores` cores."""
    environment = dict.fromkeys(THREAD_VARIABLES, str(cores))
    environment["TOKENIZERS_PARALLELISM"] = "true" if cores > 1 else "false"
    return environment


def pin(cores: int) -> list[int]:
    """Keep this process on the last `cores` cores that it may use; return them (empty where that is not allowed)."""
    try:
        chosen = sorted(os.sched_getaffinity(0))[-cores:]
        os.sched_setaffinity(0, chosen)
    except (AttributeError, OSError):
        return []
    return chosen


@dataclass(frozen=True)
class Run:
    """One call: wall time and the processor time of all its threads, in nanoseconds."""

    wall_ns: int
    cpu_ns: int


def timed(call: Callable[[], Any]) -> tuple[Run, Any]:
    """Run `call` once; return what it took and what it returned."""
    wall, cpu = time.perf_counter_ns, time.process_time_ns
    cpu_start, start = cpu(), wall()
    result = call()
    stop, cpu_stop = wall(), cpu()
    return Run(stop - start, cpu_stop - cpu_start), result


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the garbage collector out of what is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def in_turn(count: int, number: int) -> list[int]:
    """Return the order of `count` contestants in round `number`: each is first once in `count` rounds."""
    start = number % max(count, 1)
    return [*range(start, count), *range(start)]


@dataclass(frozen=True)
class Sample(Spread):
    """A sample of runs, in microseconds: the spread of their wall time, and the median of processor time."""

    cpu_p50: float

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Sample:
        wall = Spread.of_ns([run.wall_ns for run in runs])
        cpu = Spread.of_ns([run.cpu_ns for run in runs])
        return cls(wall.count, wall.minimum, wall.p50, wall.p90, wall.p99, wall.p999, wall.maximum, cpu.p50)
