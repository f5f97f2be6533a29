"""How long a path would take: the arithmetic behind spilling and rerouting. Pure: facts in, seconds or a choice out.

A worker's speed is what it reports of its last work, or an assumption until it reports any. The figures need to be good
enough to compare two paths, no more: a wrong choice costs time, never an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from .state import Limits, Worker


def seconds_on(worker: Worker, size: int, waiting_bytes: float = 0.0) -> float:
    """Return when this worker would be done with `size` more bytes: behind what it was sent and what waits for it."""
    return (worker.sent_bytes + worker.queue_bytes + waiting_bytes + size) / worker.bytes_per_s


def soonest(workers: Iterable[Worker], size: int, waiting_bytes: float = 0.0) -> tuple[Worker, float]:
    """Return the worker that would be done first, and when. `waiting_bytes` wait for any of them."""
    some = list(workers)
    share = waiting_bytes / len(some)
    return min(((one, seconds_on(one, size, share)) for one in some), key=lambda pair: pair[1])


def reroute_pays(
    limits: Limits, owner: Worker, fresh_workers: Iterable[Worker], waiting_bytes: float, delta: int, text: int
) -> bool:
    """Tell whether a change of `delta` bytes is done sooner as a fresh text of `text` bytes than by its owner's repair.

    The fresh text costs its client a refusal and the way of the whole text.
    """
    _, fresh_s = soonest(fresh_workers, text, waiting_bytes)
    way_s = limits.round_trip_s + text / limits.transfer_bytes_per_s
    return fresh_s + way_s < seconds_on(owner, delta)
