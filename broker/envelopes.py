"""Envelopes: what broker, workers and verifier say to each other, around a request, a reply, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from .constants import BAD_REQUEST, OK, VERSION
from .messages import Buffer, WireError


class Demotion(NamedTuple):
    """A tokenizer whose native path gave a wrong answer: all workers answer by the reference until it is lifted."""

    sha256: str
    #: Words for people; empty when it tells of a restore.
    reason: str
    #: Milliseconds of the epoch when the wrong answer went out; of a restore: when it was lifted. The later one counts.
    when_ms: int


#: Bytes of a demotion's reason; longer ones are cut.
REASON_MAX_BYTES: Final = 1024

#: Worker or supervisor to broker: ready, heartbeat, credit, sessions, done, seeded (a done with a seed's header and
#: marks behind the reply), leave, handover (an `adopt` follows it), disconnect, gone.
#: Broker to worker: work, heartbeat, disconnect (not known here: say ready again), drain (finish, then go away).
#: Verifier to broker: verdicts (its counters). Verifier or worker to broker: demote; the broker confirms it with
#: demote, or with restore when it was lifted since. Broker to all: demote, restore.
ENVELOPES: Final = frozenset(
    {
        *(
            "ready",
            "heartbeat",
            "credit",
            "sessions",
            "done",
            "seeded",
            "leave",
            "handover",
            "disconnect",
            "gone",
            "work",
            "drain",
        ),
        *("verdicts", "demote", "restore"),
    }
)


@dataclass(slots=True)
class Envelope:
    """What broker and worker say to each other, around a request, a reply, or nothing."""

    op: str
    #: work, done, seeded: the broker's number for the request.
    job: int = 0
    #: done: the reply's code, so that the broker need not read the reply.
    code: str = OK
    #: ready, gone: the worker's logical name, the same over its restarts.
    name: str = ""
    #: ready, gone: its process.
    pid: int = 0
    #: ready, credit: how many requests, and how many bytes of requests, it takes at a time.
    credits: int = 0
    credit_bytes: int = 0
    #: ready: name, sha256, status and reason of each tokenizer that it has.
    tokenizers: list[dict[str, str]] | None = None
    #: ready, heartbeat: the batch engine of a fresh worker; empty for one that owns sessions.
    engine: str = ""
    #: sessions: the (tenant, session) pairs that it holds.
    sessions: list[list[str]] | None = None
    #: heartbeat, verdicts: its counters.
    stats: dict[str, int] | None = None
    #: ready, demote, restore: each a Demotion.
    demotions: list[Demotion] | None = None


_ENVELOPE_KEYS: Final = {
    "jb": ("job", int),
    "cd": ("code", str),
    "nm": ("name", str),
    "pd": ("pid", int),
    "cr": ("credits", int),
    "cb": ("credit_bytes", int),
    "tz": ("tokenizers", list),
    "en": ("engine", str),
    "ss": ("sessions", list),
    "st": ("stats", dict),
    "dm": ("demotions", list),
}


def pack_envelope(envelope: Envelope) -> bytes:
    header: dict[str, Any] = {"v": VERSION, "op": envelope.op}
    for key, (attribute, _) in _ENVELOPE_KEYS.items():
        value = getattr(envelope, attribute)
        if value:
            header[key] = value
    packed: bytes = msgpack.packb(header)
    return packed


#: All but the last bytes of the two envelopes that every request pays for: a job's number follows, in eight bytes.
_JOB_BYTES: Final = 8
_WORK: Final[bytes] = msgpack.packb({"v": VERSION, "op": "work", "jb": 2**64 - 1})[:-_JOB_BYTES]
_DONE: Final[bytes] = msgpack.packb({"v": VERSION, "op": "done", "jb": 2**64 - 1})[:-_JOB_BYTES]


def pack_work(job: int) -> bytes:
    """Return the envelope around a request on its way to a worker."""
    return _WORK + job.to_bytes(_JOB_BYTES, "big")


def pack_done(job: int, code: str) -> bytes:
    """Return the envelope around a reply on its way to the broker."""
    if code != OK:
        return pack_envelope(Envelope("done", job=job, code=code))
    return _DONE + job.to_bytes(_JOB_BYTES, "big")


def work_job(frame: Buffer) -> int | None:
    """Return the job of an envelope made by `pack_work`; None for any other, which `unpack_envelope` reads."""
    return int.from_bytes(frame[-_JOB_BYTES:], "big") if frame[:-_JOB_BYTES] == _WORK else None


def done_job(frame: Buffer) -> int | None:
    """Return the job of an envelope made by `pack_done` with 'ok'; None for any other."""
    return int.from_bytes(frame[-_JOB_BYTES:], "big") if frame[:-_JOB_BYTES] == _DONE else None


def unpack_envelope(frame: Buffer) -> Envelope:
    """Read an envelope. Raises WireError for anything that is none: a stranger is on the workers' socket."""
    try:
        header = msgpack.unpackb(frame, raw=False)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise WireError(BAD_REQUEST, f"the envelope is not msgpack: {error}") from None
    op = header.get("op") if type(header) is dict and header.pop("v", None) == VERSION else None
    if type(op) is not str or op not in ENVELOPES:
        raise WireError(BAD_REQUEST, "the envelope is not one of this version")
    del header["op"]
    envelope = Envelope(op)
    for key, value in header.items():
        attribute, kind = _ENVELOPE_KEYS.get(key, (None, None))
        if attribute is None or kind is None or type(value) is not kind:
            raise WireError(BAD_REQUEST, f"envelope key {key!r:.40}: unknown or of the wrong type")
        setattr(envelope, attribute, value)
    for pair in envelope.sessions or ():
        if type(pair) is not list or [type(part) for part in pair] != [str, str]:
            raise WireError(BAD_REQUEST, "envelope key 'ss': a session is a tenant and an id")
    one: Any
    for number, one in enumerate(envelope.demotions or ()):
        assert envelope.demotions is not None
        if type(one) is not list or [type(part) for part in one] != [str, str, int]:
            raise WireError(BAD_REQUEST, "envelope key 'dm': a demotion is a hash, a reason and milliseconds")
        envelope.demotions[number] = Demotion(one[0], one[1][:REASON_MAX_BYTES], one[2])
    return envelope
