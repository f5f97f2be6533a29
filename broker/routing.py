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

Limits: no sockets, no clock, no bytes of a message (service.py has them); how a job is placed stands in placement.py.
Change the state only through the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import invariants, views
from .placement import NO_WORKER, Placement
from .protocol import INTERNAL, OK, OPERATIONS, REQUEST_ID_BYTES, SHUTTING_DOWN, STALE, Demotion, Request, SessionKey
from .state import Answer, Instruction, Job, Limits, Tell, Worker


class Router(Placement):
    """The broker's state, changed by events only."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        #: When a demotion was last lifted, by hash: those of earlier answers don't count any more. No hash
        #: is here and in `demoted`.
        self.restored: dict[str, Demotion] = {}
        #: Counts up with every change of the two: whoever keeps them for the next life looks here.
        self.demotion_changes = 0
        #: The verifier's connection, process and counters, as it last reported them; nothing once it is gone.
        self.verifier: bytes | None = None
        self.verifier_process: tuple[str, int] | None = None
        self.verdicts: dict[str, int] = {}
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
            return [self._busy(job, NO_WORKER, self.limits.retry_max_ms // 10)]
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
            worker.bytes_per_s = stats.get("bytes_per_s") or None
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

    def job_of(self, identity: bytes, number: int) -> Job | None:
        """Return a job that a worker was sent and has not answered; None where there is none."""
        worker = self.workers.get(identity)
        return None if worker is None else worker.sent.get(number)

    def on_done(
        self, identity: bytes, number: int, code: str, now: float, seed: Any = None, seed_size: int = 0
    ) -> tuple[Job | None, list[Instruction]]:
        """A worker answered `job_of`. Returns that job; None when it was answered otherwise before.

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
            out.append(self._busy(job, NO_WORKER, self.limits.retry_max_ms // 10))
        self.shared.clear()
        self.shared_bytes = 0
        return out
