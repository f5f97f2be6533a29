"""Where a job goes and where it waits: owners, queues, credits, and the fresh path. Pure; routing.py says when.

- A session is placed by rendezvous hashing over the workers' logical names and then looked up in a bounded table.
- A stateless job goes to the worker with the least outstanding, or waits in one shared queue.
- A whole text above a size goes to a fresh worker, or waits for one, unless its owner would be done sooner (spilling).
- A seed is placed with its session's owner behind all that the owner was given before.

Limits: no events, and no answer to what a dead worker leaves but to place it again: both are routing.py's.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

from . import views
from .estimates import assumed_beside, reroute_pays, seconds_on, soonest
from .protocol import BUSY, REQUEST_ID_BYTES, Demotion, SessionKey
from .state import Answer, Instruction, Job, Limits, Send, Worker

NO_WORKER = "no worker is ready"


class Placement:
    """Which worker gets what, and what waits for whom. The router's events move it on."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        #: By connection; a restarted worker is a new one.
        self.workers: dict[bytes, Worker] = {}
        #: Logical name -> connection; all and only the workers that own sessions and do not leave ...
        self.names: dict[str, bytes] = {}
        #: ... and the fresh workers that do not leave.
        self.fresh_names: dict[str, bytes] = {}
        #: Placement; least recently used first. Its workers are all in `workers`.
        self.sessions: OrderedDict[SessionKey, bytes] = OrderedDict()
        #: Stateless jobs that wait for any credit, oldest first.
        self.shared: deque[Job] = deque()
        self.shared_bytes = 0
        #: Bytes of sessions' texts at most, as far as they are known. Its keys are all placed.
        self.text_bytes: dict[SessionKey, int] = {}
        #: Jobs that wait for a fresh worker's credit, oldest first.
        self.fresh_queue: deque[Job] = deque()
        self.fresh_queue_bytes = 0
        #: All and only the requests that are queued or sent, by client and request id: a resend of one is dropped.
        self.open: dict[tuple[bytes, bytes], Job] = {}
        self.counters: dict[str, int] = dict.fromkeys(
            (
                "requests",
                "answered",
                "busy",
                "stale",
                "expired",
                "resent",
                "retried",
                "workers_lost",
                "handed_over",
                "fresh",
                "spilled",
                "seeds",
                "seeds_dropped",
                "rerouted",
                "refused",
                "failed",
            ),
            0,
        )
        #: All and only the tokenizers that are demoted, by hash.
        self.demoted: dict[str, Demotion] = {}
        self.stopping = False
        self._next_number = 0

    # -- placing ----------------------------------------------------------------------------------------------

    def _place_owned(self, job: Job, now: float) -> list[Instruction]:
        assert job.key is not None
        placed = self.sessions.get(job.key)
        worker = self.workers[placed] if placed is not None else self._rendezvous(job.key)
        if not worker.queue and not self.shared and self.has_credit(worker, job):
            # Nothing waits that is older: it goes at once, and takes no room in a queue.
            self._place(job.key, placed, worker)
            self.open[job.client, job.request_id] = job
            return [self._send(worker, job, now)]
        if self._queue_is_full(len(worker.queue), worker.queue_bytes, job):
            wait = int(1000 * worker.seconds_per_job * (len(worker.queue) + len(worker.sent)))
            return [self._busy(job, f"the queue of worker {worker.name} is full", wait)]
        self._place(job.key, placed, worker)
        self.open[job.client, job.request_id] = job
        worker.queue.append(job)
        worker.queue_bytes += job.size
        return self._dispatch(worker, now)

    def _place_stateless(self, job: Job, now: float) -> list[Instruction]:
        if self._queue_is_full(len(self.shared), self.shared_bytes, job):
            slowest = max(self.workers[identity].seconds_per_job for identity in self.names.values())
            wait = int(1000 * slowest * len(self.shared) / len(self.names))
            return [self._busy(job, "the queue is full", wait)]
        self.open[job.client, job.request_id] = job
        self.shared.append(job)
        self.shared_bytes += job.size
        return self._dispatch_shared(now)

    def _queue_is_full(self, length: int, size: int, job: Job) -> bool:
        limits = self.limits
        # A job larger than a whole queue may still wait in an empty one; messages have a limit of their own.
        return (
            length >= limits.worker_queue
            or (length > 0 and size + job.size > limits.worker_queue_bytes)
            or self.queued() >= limits.total_queue
            or (length > 0 and self.queued_bytes() + job.size > limits.total_queue_bytes)
        )

    def queued(self) -> int:
        waiting = len(self.shared) + len(self.fresh_queue)
        return waiting + sum(len(worker.queue) for worker in self.workers.values())

    def queued_bytes(self) -> int:
        waiting = self.shared_bytes + self.fresh_queue_bytes
        return waiting + sum(worker.queue_bytes for worker in self.workers.values())

    def _owner(self, key: SessionKey) -> Worker:
        """Return the worker that a session is placed with, or would be."""
        placed = self.sessions.get(key)
        return self.workers[placed] if placed is not None else self._rendezvous(key)

    def _rendezvous(self, key: SessionKey) -> Worker:
        packed = "\0".join(key).encode()

        def score(name: str) -> bytes:
            return hashlib.blake2b(name.encode() + b"\0" + packed, digest_size=8).digest()

        return self.workers[self.names[max(self.names, key=score)]]

    def _place(self, key: SessionKey, placed: bytes | None, worker: Worker) -> None:
        if placed is None:
            self._assign(key, worker)
        else:
            self.sessions.move_to_end(key)

    def _assign(self, key: SessionKey, worker: Worker) -> None:
        self._forget(key)
        while len(self.sessions) >= self.limits.sessions:
            self._forget(next(iter(self.sessions)))
        self.sessions[key] = worker.identity
        worker.sessions.add(key)

    def _note_text(self, key: SessionKey, size: int | None) -> None:
        if size is not None and key in self.sessions:
            self.text_bytes[key] = size

    def _note_change(self, job: Job) -> None:
        """Keep count of a session's text; one that began before this broker did stays unknown until its next text."""
        assert job.key is not None
        known = self.text_bytes.get(job.key)
        if job.op in ("full", "adopt"):
            self._note_text(job.key, job.size)
        elif job.op in ("append", "edit") and known is not None:
            self._note_text(job.key, known + job.size)

    def _forget(self, key: SessionKey) -> None:
        self.text_bytes.pop(key, None)
        owner = self.sessions.pop(key, None)
        if owner is not None:
            self.workers[owner].sessions.discard(key)

    # -- the fresh path ---------------------------------------------------------------------------------------

    def fresh_workers(self) -> list[Worker]:
        return [self.workers[identity] for identity in self.fresh_names.values()]

    def _is_native(self, tokenizer: str) -> bool:
        """Whether its sessions can be seeded: those of a reference would encode their text again anyway."""
        found = [entry for entry in views.tokenizers(self) if tokenizer in (entry["name"], entry["sha256"])]
        return bool(found) and all(entry["status"] == "native" for entry in found)

    def _takes_fresh_path(self, job: Job) -> bool:
        """Tell whether a fresh worker gets a whole text: while the owner would take longer, and an idle one mostly.

        An idle one may be some times slower: its owner's appends need not wait meanwhile. Beyond that, something else
        has its cores; it is tried again when what it reported is old.
        """
        if self._queue_is_full(len(self.fresh_queue), self.fresh_queue_bytes, job):
            self.counters["spilled"] += 1
            return False
        limits = self.limits
        fresh, fresh_s = soonest(self.fresh_workers(), job.size, limits.assumed_bytes_per_s, self.fresh_queue_bytes)
        assumed = assumed_beside(limits, fresh)
        idle = not fresh.sent and not self.fresh_queue
        if job.key is not None:
            owner_s = seconds_on(self._owner(job.key), job.size, assumed)
        else:
            owners = (self.workers[identity] for identity in self.names.values())
            _, owner_s = soonest(owners, job.size, assumed, self.shared_bytes)
        if fresh_s <= owner_s * (limits.fresh_slack if idle else 1.0):
            return True
        self.counters["spilled"] += 1
        return False

    def _is_rerouted(self, job: Job) -> bool:
        if job.op not in ("append", "edit") or job.key not in self.text_bytes:
            return False
        owner = self.workers[self.sessions[job.key]]
        text = self.text_bytes[job.key] + job.size
        return reroute_pays(self.limits, owner, self.fresh_workers(), self.fresh_queue_bytes, job.size, text)

    def _place_fresh(self, job: Job, now: float) -> list[Instruction]:
        self.counters["fresh"] += 1
        if job.key is not None:
            self._place(job.key, self.sessions.get(job.key), self._owner(job.key))
        job.fresh = True
        self.open[job.client, job.request_id] = job
        self.fresh_queue.append(job)
        self.fresh_queue_bytes += job.size
        return self._dispatch_fresh(now)

    def _dispatch_fresh(self, now: float) -> list[Instruction]:
        """Send what waits for a fresh worker, the oldest first, each to the one that would be done first."""
        out: list[Instruction] = []
        while self.fresh_queue:
            job = self.fresh_queue[0]
            able = [worker for worker in self.fresh_workers() if self.has_credit(worker, job)]
            if not able:
                break
            self.fresh_queue.popleft()
            self.fresh_queue_bytes -= job.size
            if not self._expire(job, now):
                out.append(self._send(soonest(able, job.size, self.limits.assumed_bytes_per_s)[0], job, now))
        return out

    def _leave_fresh_path(self, now: float) -> list[Instruction]:
        """Give what waits for a fresh worker to the others once there is none left."""
        out: list[Instruction] = []
        while self.fresh_queue and not self.fresh_names:
            job = self.fresh_queue.popleft()
            self.fresh_queue_bytes -= job.size
            out += self._place_again(job, now)
        return out

    def _place_again(self, job: Job, now: float) -> list[Instruction]:
        """Place a job that left the fresh path as if it came only now; it stays open."""
        job.fresh = False
        if not self.names:
            self._settle(job)
            return [self._busy(job, NO_WORKER, self.limits.retry_max_ms // 10)]
        del self.open[job.client, job.request_id]
        placed = self._place_stateless(job, now) if job.key is None else self._place_owned(job, now)
        if any(isinstance(one, Answer) and one.request_id == job.request_id for one in placed):
            self.counters["answered"] += 1
        return placed

    def _place_seed(self, key: SessionKey, seed: Any, size: int, now: float, deaths: int = 0) -> list[Instruction]:
        """Place a seed with its session's owner, behind all that the owner was given so far, or drop it."""
        number = self._next_number
        job = Job(number, b"", number.to_bytes(REQUEST_ID_BYTES, "little"), "seed", key, None, size, None, seed, deaths)
        owner = self._owner(key) if self.names else None
        if self.stopping or owner is None or self._queue_is_full(len(owner.queue), owner.queue_bytes, job):
            self.counters["seeds_dropped"] += 1
            return []
        self._next_number += 1
        self.counters["seeds"] += 1
        return self._place_owned(job, now)

    def _pass_seeds_on(self, seeds: Iterable[Job], now: float) -> list[Instruction]:
        """Give the seeds that a lost owner leaves to the next one, which needs nothing else for its session.

        Not those that two owners died over: perhaps they are why.
        """
        out: list[Instruction] = []
        for job in seeds:
            assert job.key is not None
            if job.deaths < 2:
                out += self._place_seed(job.key, job.payload, job.size, now, job.deaths)
            else:
                self.counters["seeds_dropped"] += 1
        return out

    # -- dispatching ------------------------------------------------------------------------------------------

    def has_credit(self, worker: Worker, job: Job) -> bool:
        # A job larger than all credits goes alone, or it would never go.
        if worker.leaving or len(worker.sent) >= worker.credits:
            return False
        return not worker.sent or worker.sent_bytes + job.size <= worker.credit_bytes

    def _dispatch(self, worker: Worker, now: float) -> list[Instruction]:
        """Send what waits for this worker, the older of its own queue's head and the shared queue's head first."""
        if worker.fresh:
            return self._dispatch_fresh(now)
        out: list[Instruction] = []
        shared_moved = False
        while worker.queue or self.shared:
            own = bool(worker.queue) and (not self.shared or worker.queue[0].number < self.shared[0].number)
            job = worker.queue[0] if own else self.shared[0]
            if not self.has_credit(worker, job):
                break
            if own:
                worker.queue.popleft()
                worker.queue_bytes -= job.size
            else:
                self.shared.popleft()
                self.shared_bytes -= job.size
                shared_moved = True
            if self._expire(job, now):
                continue
            out.append(self._send(worker, job, now))
        if shared_moved:  # its head held up the younger work of every worker that had no credit for it
            for other in self.workers.values():
                if other is not worker and other.queue:
                    out += self._dispatch(other, now)
        return out

    def _send(self, worker: Worker, job: Job, now: float) -> Send:
        job.sent_at = now
        worker.sent[job.number] = job
        worker.sent_bytes += job.size
        return Send(worker.identity, job)

    def _dispatch_shared(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for identity in sorted(
            self.names.values(), key=lambda one: (self.workers[one].sent_bytes, len(self.workers[one].sent))
        ):
            if not self.shared:
                break
            out += self._dispatch(self.workers[identity], now)
        return out

    def _expire(self, job: Job, now: float) -> bool:
        if job.deadline is None or now <= job.deadline:
            return False
        self.counters["expired"] += 1
        self._settle(job)
        return True

    def _drop_expired(self, queue: deque[Job], now: float) -> int:
        """Drop the jobs of a queue that nobody waits for; return their bytes."""
        if not any(job.deadline is not None and now > job.deadline for job in queue):
            return 0
        kept: list[Job] = []
        dropped = 0
        for job in queue:
            if self._expire(job, now):
                dropped += job.size
            else:
                kept.append(job)
        queue.clear()
        queue.extend(kept)
        return dropped

    # -- answering --------------------------------------------------------------------------------------------

    def _settle(self, job: Job) -> None:
        self.counters["answered"] += 1
        del self.open[job.client, job.request_id]

    def _busy(self, job: Job, message: str, wait_ms: int) -> Answer:
        self.counters["busy"] += 1
        wait_ms = min(max(wait_ms, self.limits.retry_min_ms), self.limits.retry_max_ms)
        return Answer(job.client, job.request_id, BUSY, f"{message}; try again in {wait_ms} ms", wait_ms)

    def _refuse(self, client: bytes, request_id: bytes, code: str, message: str) -> Answer:
        self.counters["refused"] += 1
        return Answer(client, request_id, code, message)
