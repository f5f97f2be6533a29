"""Where requests go: placement of sessions, credits, queues, liveness. Pure: events with `now` in, instructions out.

- A session belongs to one worker. It is placed by rendezvous hashing over the workers' logical names and then looked
  up in a bounded table; a fork is placed with its parent.
- A stateless request goes to the worker with the least outstanding, or waits in one shared queue.
- A worker is never sent more requests or bytes than it gave credits for; queues are bounded; a full one answers 'busy'.
- A tokenizer that gave a wrong answer is demoted: every worker is told to answer by the reference, also those that come
  later, until an operator restores it. Of a demotion and a restore the later counts, whoever still tells of the other.
- A worker that leaves hands its sessions over: each is placed anew and sent to its next owner before its client asks
  there; what the client has sent in full by then stays.
- A silent worker is dead. What it was sent is answered: stateless requests once more on another worker, session
  requests with 'stale' (the client sends the full text again), a close with success (the state is gone).
- A whole text above a size goes to a fresh worker, where there is one, unless its owner would be done sooner
  (spilling). The answer to a session's text brings a seed, which is placed with the owner in the same event: so
  whatever the client builds on the answer comes behind the seed. A seed that is lost or refused costs a 'stale', like
  any lost state.
- What a fresh worker leaves behind goes to the owner instead: nothing of the session has changed yet.
- A change so large that a fresh text would be quicker is answered 'stale' (rerouting).

Limits: no sockets, no clock, no bytes of a message (service.py has them). Change the state only through the events.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any

from . import invariants, views
from .estimates import reroute_pays, seconds_on, soonest
from .protocol import (
    BUSY,
    INTERNAL,
    OK,
    OPERATIONS,
    REQUEST_ID_BYTES,
    SHUTTING_DOWN,
    STALE,
    Demotion,
    Request,
    SessionKey,
)
from .state import Answer, Instruction, Job, Limits, Send, Tell, Worker

_NO_WORKER = "no worker is ready"


class Router:
    """The broker's state, changed by events only."""

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
        #: All and only the tokenizers that are demoted, by hash. No hash is here and in `restored`.
        self.demoted: dict[str, Demotion] = {}
        #: When a demotion was last lifted, by hash: those of earlier answers don't count any more.
        self.restored: dict[str, Demotion] = {}
        #: Counts up with every change of the two: whoever keeps them for the next life looks here.
        self.demotion_changes = 0
        #: The verifier's connection, process and counters, as it last reported them; nothing once it is gone.
        self.verifier: bytes | None = None
        self.verifier_process: tuple[str, int] | None = None
        self.verdicts: dict[str, int] = {}
        self.stopping = False
        self._next_number = 0
        self._last_beat = float("-inf")

    # -- events of clients ------------------------------------------------------------------------------------

    def on_request(self, client: bytes, request: Request, size: int, payload: Any, now: float) -> list[Instruction]:
        """Place a request that a worker has to answer."""
        self.counters["requests"] += 1
        if self.stopping:
            return [self._refuse(client, request.request_id, SHUTTING_DOWN, "the broker is shutting down")]
        identity = (client, request.request_id)
        if identity in self.open:
            self.counters["resent"] += 1
            return []  # its first copy will be answered
        owned = OPERATIONS[request.op].answered_by == "owner"
        job = Job(
            self._next_number,
            client,
            request.request_id,
            request.op,
            request.key if owned else None,
            request.new_key if request.op == "fork" else None,
            size,
            None if request.budget_ms is None else now + request.budget_ms / 1000,
            payload,
        )
        if not self.names:
            return [self._busy(job, _NO_WORKER, self.limits.retry_max_ms // 10)]
        self._next_number += 1
        if size >= self.limits.fresh_bytes and self.fresh_names:
            if OPERATIONS[request.op].fresh:
                if (not owned or self._is_native(request.tokenizer)) and self._takes_fresh_path(job):
                    return self._place_fresh(job, now)
            elif self._is_rerouted(job):
                self.counters["rerouted"] += 1
                self.counters["stale"] += 1
                why = "so large a change is quicker as a fresh text; send the full text"
                return [Answer(client, request.request_id, STALE, why)]
        return self._place_owned(job, now) if owned else self._place_stateless(job, now)

    # -- events of workers ------------------------------------------------------------------------------------

    def on_ready(
        self,
        identity: bytes,
        name: str,
        pid: int,
        credits: int,
        credit_bytes: int,
        tokenizers: list[dict[str, str]],
        now: float,
        demotions: Iterable[Demotion] = (),
        engine: str = "",
    ) -> list[Instruction]:
        """Take a worker in. One that says ready again only renews itself; a new process takes its name over.

        `demotions` are what it knows of: a broker that restarted learns of them again. `engine`: a fresh worker's.
        """
        known = self.workers.get(identity)
        if known is not None:
            known.credits, known.credit_bytes, known.last_seen = credits, credit_bytes, now
            known.engine = engine or known.engine
            return [*self.on_demote(identity, demotions), *self._dispatch(known, now)]
        out: list[Instruction] = self.on_demote(identity, demotions)
        if self.demoted:
            out.append(Tell(identity, "demote", tuple(self.demoted.values())))
        previous = self.names.get(name) or self.fresh_names.get(name)
        worker = Worker(identity, name, pid, credits, credit_bytes, tokenizers, now, bool(engine), engine)
        worker.bytes_per_s = self.limits.assumed_bytes_per_s
        self.workers[identity] = worker
        (self.fresh_names if worker.fresh else self.names)[name] = identity
        if previous is not None:
            out += self._lose(self.workers[previous], now)
        return [*out, *self._dispatch(worker, now)]

    def on_heartbeat(
        self, identity: bytes, stats: dict[str, int] | None, now: float, engine: str = ""
    ) -> list[Instruction]:
        worker = self.workers.get(identity)
        if worker is None:
            return [Tell(identity, "disconnect")]
        worker.last_seen = now
        if stats is not None:
            worker.stats = stats
            worker.bytes_per_s = stats.get("bytes_per_s") or self.limits.assumed_bytes_per_s
        worker.engine = engine or worker.engine
        return []

    def on_credit(self, identity: bytes, credits: int, credit_bytes: int, now: float) -> list[Instruction]:
        worker = self.workers.get(identity)
        if worker is None:
            return [Tell(identity, "disconnect")]
        worker.credits, worker.credit_bytes, worker.last_seen = credits, credit_bytes, now
        return self._dispatch(worker, now)

    def on_sessions(self, identity: bytes, keys: list[SessionKey], now: float) -> list[Instruction]:
        """A worker tells which sessions it holds, after a broker restart. A key that is placed already stays."""
        worker = self.workers.get(identity)
        if worker is None:
            return [Tell(identity, "disconnect")]
        worker.last_seen = now
        for key in keys if not worker.leaving and not worker.fresh else ():
            if key not in self.sessions:
                self._assign(key, worker)
        return []

    def payload_of(self, identity: bytes, number: int) -> Any:
        """Return the frames of a job that a worker was sent and has not answered; None where there is none."""
        worker = self.workers.get(identity)
        job = None if worker is None else worker.sent.get(number)
        return None if job is None else job.payload

    def on_done(
        self, identity: bytes, number: int, code: str, now: float, seed: Any = None, seed_size: int = 0
    ) -> tuple[Job | None, list[Instruction]]:
        """A worker answered. Returns the job to relay the answer for; None when it was answered otherwise before.

        `seed`: the frames that make a fresh worker's answer the owner's session.
        """
        worker = self.workers.get(identity)
        if worker is None:
            return None, [Tell(identity, "disconnect")]
        worker.last_seen = now
        job = worker.sent.pop(number, None)
        if job is None:
            return None, []
        worker.sent_bytes -= job.size
        worker.seconds_per_job += (min(now - job.sent_at, 10.0) - worker.seconds_per_job) / 16
        self._settle(job)
        out: list[Instruction] = []
        if code == STALE:
            self.counters["stale"] += 1
        elif code == OK and job.key is not None:
            if job.op == "close":
                self._forget(job.key)
            elif job.fork_key is not None:
                if not worker.leaving:
                    self._assign(job.fork_key, worker)
                    self._note_text(job.fork_key, self.text_bytes.get(job.key))
            else:
                self._note_change(job)
            if seed is not None:
                out = self._place_seed(job.key, seed, seed_size, now)
        waiting = self.fresh_queue if worker.fresh else worker.queue or self.shared
        return job, [*out, *self._dispatch(worker, now)] if waiting else out

    def on_leave(self, identity: bytes, now: float) -> list[Instruction]:
        """A worker wants no more work: what waits for it is placed elsewhere, what it was sent it will answer."""
        worker = self.workers.get(identity)
        if worker is None or worker.leaving:
            return []
        worker.last_seen = now
        self._retire(worker)
        out = [*self._answer_queue(worker, now), *self._leave_fresh_path(now)]
        return out if self.names else out + self._refuse_shared()

    def on_handover(self, identity: bytes, request: Request, size: int, payload: Any, now: float) -> list[Instruction]:
        """A leaving worker gives a session away: it is placed anew, unless its client was faster or nobody has room."""
        worker = self.workers.get(identity)
        if worker is None:
            return [Tell(identity, "disconnect")]
        worker.last_seen = now
        key = request.key
        if not worker.leaving or self.stopping or not self.names or key in self.sessions:
            return []
        number = self._next_number
        request_id = number.to_bytes(REQUEST_ID_BYTES, "little")
        job = Job(number, b"", request_id, request.op, key, None, size, now + self.limits.handover_s, payload)
        heir = self._rendezvous(key)
        if self._queue_is_full(len(heir.queue), heir.queue_bytes, job):
            return []
        self._next_number += 1
        self.counters["handed_over"] += 1
        return self._place_owned(job, now)

    def on_disconnect(self, identity: bytes, now: float) -> list[Instruction]:
        """A worker says goodbye."""
        worker = self.workers.get(identity)
        return [] if worker is None else self._lose(worker, now)

    def on_unreachable(self, identity: bytes, now: float) -> list[Instruction]:
        """The socket could not deliver to a worker: it is dead or does not read."""
        worker = self.workers.get(identity)
        if worker is None:
            return []
        self.counters["workers_lost"] += 1
        return self._lose(worker, now)

    def on_gone(self, name: str, pid: int, now: float) -> list[Instruction]:
        """The supervisor saw this process end."""
        if (name, pid) == self.verifier_process:
            self.verifier, self.verifier_process, self.verdicts = None, None, {}
            return []
        worker = self.workers.get(self.names.get(name) or self.fresh_names.get(name, b""))
        if worker is None or worker.pid != pid:
            return []
        self.counters["workers_lost"] += 1
        return self._lose(worker, now)

    # -- demotions --------------------------------------------------------------------------------------------

    def on_demote(self, identity: bytes, demotions: Iterable[Demotion]) -> list[Instruction]:
        """A verifier or worker found wrong answers. Everybody is told of what is new; the sender always hears back."""
        out: list[Instruction] = []
        for demotion in demotions:
            lifted = self.restored.get(demotion.sha256)
            if lifted is not None and demotion.when_ms <= lifted.when_ms:
                out.append(Tell(identity, "restore", (lifted,)))
                continue
            if demotion.sha256 not in self.demoted:
                self.restored.pop(demotion.sha256, None)
                self.demoted[demotion.sha256] = demotion
                self.demotion_changes += 1
                out += [Tell(worker, "demote", (demotion,)) for worker in self.workers if worker != identity]
            out.append(Tell(identity, "demote", (self.demoted[demotion.sha256],)))
        return out

    def on_restore(self, tokenizer: str, now_ms: int) -> tuple[int | None, list[Instruction]]:
        """An operator lifts a demotion. Returns how many were lifted: 1, 0, or None for a tokenizer nobody has."""
        sha256 = tokenizer
        if tokenizer not in self.demoted:
            found = {entry["sha256"] for entry in self.tokenizers() if tokenizer in (entry["name"], entry["sha256"])}
            if not found:
                return None, []
            sha256 = min(found)
        if self.demoted.pop(sha256, None) is None:
            return 0, []
        lifted = Demotion(sha256, "", now_ms)
        self.restored[sha256] = lifted
        self.demotion_changes += 1
        told = [*self.workers, *([] if self.verifier is None else [self.verifier])]
        return 1, [Tell(identity, "restore", (lifted,)) for identity in told]

    def on_verdicts(self, identity: bytes, name: str, pid: int, stats: dict[str, int] | None) -> None:
        """The verifier reports its counters, which count from its start."""
        self.verifier = identity
        self.verifier_process = (name, pid)
        self.verdicts = stats or {}

    # -- time -------------------------------------------------------------------------------------------------

    def on_tick(self, now: float) -> list[Instruction]:
        """Bury silent workers, drop requests that nobody waits for, beat. Call it a few times a heartbeat."""
        out: list[Instruction] = []
        patience = self.limits.heartbeat_s * self.limits.misses
        for worker in list(self.workers.values()):
            busy_bytes = worker.sent_bytes
            if worker.fresh and worker.sent:  # it beats between batches: only the largest keeps it silent
                largest = max(job.size for job in worker.sent.values())
                busy_bytes = min(busy_bytes, max(largest, self.limits.fresh_batch_bytes))
            if now - worker.last_seen > patience + busy_bytes * self.limits.grace_s_per_byte:
                self.counters["workers_lost"] += 1
                out += self._lose(worker, now)
        for worker in self.workers.values():
            worker.queue_bytes -= self._drop_expired(worker.queue, now)
        self.shared_bytes -= self._drop_expired(self.shared, now)
        self.fresh_queue_bytes -= self._drop_expired(self.fresh_queue, now)
        for worker in list(self.workers.values()):
            out += self._dispatch(worker, now)
        if now - self._last_beat >= self.limits.heartbeat_s:
            self._last_beat = now
            out += [Tell(identity, "heartbeat") for identity in self.workers]
        return out

    def stop(self) -> None:
        """Take no more requests; those taken are still answered. `idle` tells when they all are."""
        self.stopping = True

    def abandon(self) -> list[Instruction]:
        """Answer everything that is still open, and let the workers go."""
        out: list[Instruction] = [
            self._refuse(job.client, job.request_id, SHUTTING_DOWN, "the broker is shutting down")
            for job in self.open.values()
        ]
        out += [Tell(identity, "drain") for identity in self.workers]
        self.verifier, self.verifier_process, self.verdicts = None, None, {}
        for names in (self.names, self.fresh_names):
            names.clear()
        for state in (self.workers, self.sessions, self.text_bytes, self.shared, self.fresh_queue, self.open):
            state.clear()
        self.shared_bytes = self.fresh_queue_bytes = 0
        self.stopping = True
        return out

    @property
    def idle(self) -> bool:
        return not self.open

    # -- views ------------------------------------------------------------------------------------------------

    def tokenizers(self) -> list[dict[str, str]]:
        """Every tokenizer that some worker has, as it is answered now."""
        return views.tokenizers(self)

    def stats(self) -> dict[str, Any]:
        """Counters of the tier; see views.py."""
        return views.stats(self)

    def validate(self) -> None:
        """Check every invariant that the comments state. For tests, and behind the service's debug flag."""
        invariants.check(self)

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
        found = [entry for entry in self.tokenizers() if tokenizer in (entry["name"], entry["sha256"])]
        return bool(found) and all(entry["status"] == "native" for entry in found)

    def _takes_fresh_path(self, job: Job) -> bool:
        """Tell whether a fresh worker gets a whole text: while the owner would take longer, and an idle one mostly.

        An idle one may be some times slower: its owner's appends need not wait meanwhile. Beyond that, something else
        has its cores; it is tried again when what it reported is old.
        """
        if self._queue_is_full(len(self.fresh_queue), self.fresh_queue_bytes, job):
            self.counters["spilled"] += 1
            return False
        fresh, fresh_s = soonest(self.fresh_workers(), job.size, self.fresh_queue_bytes)
        idle = not fresh.sent and not self.fresh_queue
        if job.key is not None:
            owner_s = seconds_on(self._owner(job.key), job.size)
        else:
            owners = (self.workers[identity] for identity in self.names.values())
            _, owner_s = soonest(owners, job.size, self.shared_bytes)
        if fresh_s <= owner_s * (self.limits.fresh_slack if idle else 1.0):
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
                out.append(self._send(soonest(able, job.size)[0], job, now))
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
            return [self._busy(job, _NO_WORKER, self.limits.retry_max_ms // 10)]
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

    # -- losing -----------------------------------------------------------------------------------------------

    def _retire(self, worker: Worker) -> None:
        """Place nothing on this worker any more."""
        worker.leaving = True
        names = self.fresh_names if worker.fresh else self.names
        if names.get(worker.name) == worker.identity:
            del names[worker.name]
        for key in list(worker.sessions):
            self._forget(key)

    def _lose(self, worker: Worker, now: float) -> list[Instruction]:
        """Remove a worker and answer everything that it leaves stranded. It is told, in case it lives."""
        self._retire(worker)
        del self.workers[worker.identity]
        seeds = [job for job in worker.sent.values() if job.op == "seed"]
        out: list[Instruction] = []
        again = False
        for job in sorted(worker.sent.values(), key=lambda job: job.number, reverse=not worker.fresh):
            job.deaths += 1
            if job.op == "seed":
                self._settle(job)
            elif job.fresh:
                self.counters["retried"] += 1
                out += self._place_again(job, now)
            elif job.key is not None:
                out.append(self._answer_lost(job))
            elif job.deaths > 1:
                self._settle(job)
                out.append(self._refuse(job.client, job.request_id, INTERNAL, "two workers died over this request"))
            else:
                self.counters["retried"] += 1
                self.shared.appendleft(job)
                self.shared_bytes += job.size
                again = True
        worker.sent.clear()
        worker.sent_bytes = 0
        out.append(Tell(worker.identity, "disconnect"))
        out += self._pass_seeds_on(seeds, now)
        out += self._answer_queue(worker, now)
        out += self._leave_fresh_path(now)
        if again or self.shared:
            out += self._dispatch_shared(now)
        if not self.names:
            out += self._refuse_shared()
        return out

    def _answer_queue(self, worker: Worker, now: float) -> list[Instruction]:
        """Answer what waits for a worker that takes no more; seeds go on to their sessions' next owners."""
        seeds = [job for job in worker.queue if job.op == "seed"]
        for job in seeds:
            self._settle(job)
        out: list[Instruction] = [self._answer_lost(job) for job in worker.queue if job.op != "seed"]
        worker.queue.clear()
        worker.queue_bytes = 0
        return out + self._pass_seeds_on(seeds, now)

    def _answer_lost(self, job: Job) -> Answer:
        """Answer a session's request whose worker is gone, and its state with it."""
        self._settle(job)
        if job.op == "close":
            return Answer(job.client, job.request_id, OK, "")
        self.counters["stale"] += 1
        return Answer(job.client, job.request_id, STALE, "the session's worker is gone; send the full text")

    def _refuse_shared(self) -> list[Instruction]:
        out: list[Instruction] = []
        for job in self.shared:
            self._settle(job)
            out.append(self._busy(job, _NO_WORKER, self.limits.retry_max_ms // 10))
        self.shared.clear()
        self.shared_bytes = 0
        return out

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
