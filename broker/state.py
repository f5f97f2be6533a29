"""What the router keeps of workers and requests, and how it answers an event. Data only: routing.py changes it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .protocol import Demotion, SessionKey


class Limits(NamedTuple):
    """What bounds the broker. All of it is settable; the defaults fit one machine."""

    #: Seconds between heartbeats of a worker; the broker beats as often.
    heartbeat_s: float = 1.0
    #: Heartbeats missed before a worker counts as dead (the guide's 3 to 5).
    misses: int = 4
    #: Seconds of silence granted per byte sent and unanswered: a worker beats between requests, not within one. The
    #: reference needs about 1 us a byte; 5 leaves room for a slow machine. A dead process is reported at once anyway.
    grace_s_per_byte: float = 5e-6
    #: Requests and bytes that may wait for one worker: at 50 us each, 1,024 are 50 ms of work.
    worker_queue: int = 1024
    worker_queue_bytes: int = 256 * 1024 * 1024
    #: Requests and bytes that may wait in all, and so the broker's memory.
    total_queue: int = 8192
    total_queue_bytes: int = 512 * 1024 * 1024
    #: Placements kept, about 400 bytes each; the least recently used is forgotten and placed anew when it comes back.
    sessions: int = 200_000
    #: Seconds that a session on its way from a leaving worker to its next owner may wait for credit.
    handover_s: float = 5.0
    #: Bytes of a request from which on a fresh worker encodes it, where there is one (figures: workers/README.md).
    fresh_bytes: int = 64 * 1024
    #: How many times longer than the owner an idle fresh worker may take for a text.
    fresh_slack: float = 4.0
    #: Bytes that a fresh worker encodes at a time, or one text, if that is longer.
    fresh_batch_bytes: int = 4 * 1024 * 1024
    #: Bytes a second that a worker is taken to encode while it reports no figure: one core.
    assumed_bytes_per_s: float = 50e6
    #: What sending a whole text anew costs beside encoding it: bytes a second over both sockets, and a round trip.
    transfer_bytes_per_s: float = 500e6
    round_trip_s: float = 0.001
    #: Milliseconds that a refused client is told to wait, at least and at most.
    retry_min_ms: int = 5
    retry_max_ms: int = 2000


@dataclass(slots=True, eq=False)
class Job:
    """One request on its way."""

    number: int
    #: Empty where nobody waits for an answer: a session that changes hands.
    client: bytes
    request_id: bytes
    op: str
    #: The session that it belongs to; None for a stateless request.
    key: SessionKey | None
    #: The session that a fork makes.
    fork_key: SessionKey | None
    size: int
    #: In the caller's `now`; past it nobody waits for the answer.
    deadline: float | None
    #: The message's frames; never looked at here.
    payload: Any
    #: Workers that it was sent to and that died; a second death is an error, not a third try.
    deaths: int = 0
    #: Whether it is on the fresh path: it waits for a fresh worker, or one was sent it.
    fresh: bool = False
    sent_at: float = 0.0


@dataclass(slots=True, eq=False)
class Worker:
    """One connected worker process."""

    identity: bytes
    name: str
    pid: int
    credits: int
    credit_bytes: int
    tokenizers: list[dict[str, str]]
    last_seen: float
    #: Whether it encodes whole texts and owns no sessions; its batch engine, as it last told.
    fresh: bool = False
    engine: str = ""
    #: What it encodes a second, as it last reported; None while it has nothing (recent) to report.
    bytes_per_s: float | None = None
    #: All and only the jobs that it was sent and has not answered, by number.
    sent: dict[int, Job] = field(default_factory=dict)
    #: Sum of `size` over `sent`.
    sent_bytes: int = 0
    #: Session jobs that wait for its credit, oldest first. No job of another worker's session is here, and none at all
    #: of a fresh worker.
    queue: deque[Job] = field(default_factory=deque)
    #: Sum of `size` over `queue`.
    queue_bytes: int = 0
    #: All and only the keys that the table places here.
    sessions: set[SessionKey] = field(default_factory=set)
    #: True once it asked for no more work.
    leaving: bool = False
    #: Seconds per answered request, an exponential mean.
    seconds_per_job: float = 0.001
    #: Its own counters, as it last reported them.
    stats: dict[str, int] = field(default_factory=dict)


class Send(NamedTuple):
    """Send this job to this worker. If the socket refuses, report `on_unreachable`."""

    worker: bytes
    job: Job


class Answer(NamedTuple):
    """Answer this request here and now; where `client` is empty there is nobody to answer."""

    client: bytes
    request_id: bytes
    code: str
    message: str
    retry_after_ms: int | None = None


class Tell(NamedTuple):
    """Say this to a worker (or to the verifier): heartbeat, disconnect, drain, demote or restore."""

    worker: bytes
    op: str
    #: demote, restore: what about.
    demotions: tuple[Demotion, ...] = ()


Instruction = Send | Answer | Tell
