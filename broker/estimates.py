"""How long a path would take: the arithmetic behind spilling and rerouting. Pure: facts in, seconds or a choice out.

A worker's speed is what it reports of its last work, or an assumption until it reports any. The figures need to be good
enough to compare two paths, no more: a wrong choice costs time, never an answer. Like is compared with like: beside a
worker that had hard texts, one that reports nothing counts as no quicker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .state import Job, Limits, Worker

#: A seed is taken in at memory speed: about as quickly as a twentieth of its bytes is encoded.
SEED_WORK: Final = 0.05


def work(jobs: Iterable[Job]) -> float:
    """Return what jobs come to in bytes to encode."""
    return sum(job.size * SEED_WORK if job.op == "seed" else job.size for job in jobs)


def assumed_beside(limits: Limits, other: Worker) -> float:
    """Return the bytes a second to assume of a worker that reports none, where it is compared with another."""
    assumed = limits.assumed_bytes_per_s
    return assumed if other.bytes_per_s is None else min(assumed, other.bytes_per_s)


def seconds_on(worker: Worker, size: int, assumed_bytes_per_s: float, waiting_bytes: float = 0.0) -> float:
    """Return when this worker would be done with `size` more bytes: behind what it was sent and what waits for it."""
    ahead = work(worker.sent.values()) + work(worker.queue)
    return (ahead + waiting_bytes + size) / (worker.bytes_per_s or assumed_bytes_per_s)


def soonest(
    workers: Iterable[Worker], size: int, assumed_bytes_per_s: float, waiting_bytes: float = 0.0
) -> tuple[Worker, float]:
    """Return the worker that would be done first, and when. `waiting_bytes` wait for any of them."""
    some = list(workers)
    share = waiting_bytes / len(some)
    return min(((one, seconds_on(one, size, assumed_bytes_per_s, share)) for one in some), key=lambda pair: pair[1])


def reroute_pays(
    limits: Limits, owner: Worker, fresh_workers: Iterable[Worker], waiting_bytes: float, delta: int, text: int
) -> bool:
    """Tell whether a change of `delta` bytes is cheaper as a fresh text of `text` bytes than as its owner's repair.

    The fresh text costs its client a refusal and the way of the whole text. What waits for the owner does not count: it
    would send the more work on its way, the more there is already.
    """
    fresh, fresh_s = soonest(fresh_workers, text, limits.assumed_bytes_per_s, waiting_bytes)
    way_s = limits.round_trip_s + text / limits.transfer_bytes_per_s
    return fresh_s + way_s < delta / (owner.bytes_per_s or assumed_beside(limits, fresh))
