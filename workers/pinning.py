"""Cores, memory nodes and priority: which core each worker gets, how it gets there, and who steps aside.

One thread of each physical core before any second one, the memory nodes in turn, and only cores that this process may
use (a container's or taskset's share). A worker pins itself before it allocates, so that first touch puts its tables
and sessions on its own node. Limits: Linux; elsewhere, and where the kernel forbids it, workers run unpinned.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")


class Seat(NamedTuple):
    """Where a worker runs: its core.

    ZeroMQ's I/O thread stays there too. A worker sleeps while it waits for a request and once it has answered one, so
    the two take turns, and to wake each other up costs no more than from core to core, often less; and the other cores
    are left to others.
    """

    cpu: int


class Core(NamedTuple):
    """One logical CPU: its number, its memory node, its place among the threads of its physical core (0: the first)."""

    cpu: int
    node: int
    thread: int


def parse_list(text: str) -> list[int]:
    """Read the kernel's list format.

    >>> parse_list("0-2,8\\n")
    [0, 1, 2, 8]
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last if dash else first) + 1)
    return numbers


def allowed_cores(cpus: Path = _CPUS, nodes: Path = _NODES) -> list[Core]:
    """Return the cores that this process may run on, in order of number. Without sysfs all are of node 0."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    node_of: dict[int, int] = {}
    for entry in sorted(nodes.glob("node[0-9]*")):
        try:
            for cpu in parse_list((entry / "cpulist").read_text()):
                node_of[cpu] = int(entry.name[4:])
        except (OSError, ValueError):
            continue
    cores = []
    for cpu in allowed:
        try:
            siblings = parse_list((cpus / f"cpu{cpu}/topology/thread_siblings_list").read_text())
        except (OSError, ValueError):
            siblings = [cpu]
        usable = [sibling for sibling in siblings if sibling in allowed]
        cores.append(Core(cpu, node_of.get(cpu, 0), usable.index(cpu) if cpu in usable else 0))
    return cores


def plan(workers: int, cores: list[Core]) -> list[Seat | None]:
    """Return a seat for each worker; None for those beyond the cores: two pinned to one core would only wait.

    >>> [seat.cpu for seat in plan(3, [Core(0, 0, 0), Core(1, 0, 1), Core(2, 1, 0), Core(3, 1, 1)])]
    [0, 2, 1]
    """
    by_node: dict[int, list[Core]] = {}
    for core in sorted(cores, key=lambda core: (core.thread, core.cpu)):
        by_node.setdefault(core.node, []).append(core)
    # Position within its node decides the round, so the nodes take turns; within a round the lower node is first.
    rounds = [(core.thread, place, core.node, core.cpu) for node in by_node.values() for place, core in enumerate(node)]
    order = [Seat(cpu) for _, _, _, cpu in sorted(rounds)]
    return [order[number] if number < len(order) else None for number in range(workers)]


class Place(NamedTuple):
    """Where a fresh worker runs: its cores (none: any), and how much it gives way to others (nice)."""

    cpus: tuple[int, ...]
    nice: int


#: What a fresh worker gives way by on cores that it shares: beside a repair worker it gets a tenth of a core, and one
#: that wakes up to answer an append does not wait for it.
SHARED_NICE = 10


def plan_fresh(workers: int, cores: list[Core], seats: list[Seat | None]) -> list[Place]:
    """Return a place for each fresh worker: the cores that no repair worker has, dealt out, or all, giving way.

    >>> plan_fresh(1, [Core(cpu, 0, 0) for cpu in range(4)], [Seat(0), None])
    [Place(cpus=(1, 2, 3), nice=0)]
    >>> plan_fresh(1, [Core(0, 0, 0), Core(1, 0, 0)], [Seat(0), Seat(1)])
    [Place(cpus=(), nice=10)]
    """
    if not workers:
        return []
    taken = {seat.cpu for seat in seats if seat is not None}
    rest = [core.cpu for core in sorted(cores, key=lambda core: (core.node, core.cpu)) if core.cpu not in taken]
    if not taken or len(rest) < workers:
        return [Place((), SHARED_NICE)] * workers
    share, more = divmod(len(rest), workers)
    starts = [number * share + min(number, more) for number in range(workers + 1)]
    return [Place(tuple(rest[starts[number] : starts[number + 1]]), 0) for number in range(workers)]


def pin(*cpus: int) -> str | None:
    """Pin this process to some cores. Returns None, or why that is not possible."""
    if not hasattr(os, "sched_setaffinity"):
        return "this system has no way to pin a process"
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        cores = f"core{'s' if len(cpus) > 1 else ''} {', '.join(map(str, cpus))}"
        return f"pinning to {cores} is not allowed here: {error.strerror}"
    return None


def step_aside() -> str:
    """Give this process, before it has threads, the lowest priority that there is here. Returns what it got.

    Under SCHED_IDLE it runs where nobody else would: on busy cores hardly at all.
    """
    got = "nice 19"
    with contextlib.suppress(OSError):
        os.nice(19)
    for name in ("SCHED_IDLE", "SCHED_BATCH"):
        policy = getattr(os, name, None)
        if policy is not None:
            try:
                os.sched_setscheduler(0, policy, os.sched_param(0))
            except OSError:
                continue
            return f"{name}, {got}"
    return got


def describe(cores: list[Core]) -> str:
    """Return one line for people."""
    nodes = sorted({core.node for core in cores})
    physical = sum(core.thread == 0 for core in cores)
    return f"{len(cores)} usable ({physical} physical) on {len(nodes)} memory node{'s' if len(nodes) != 1 else ''}"
