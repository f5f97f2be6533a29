"""The wire: what a message between client, broker and worker is, and the only place that packs or unpacks one.

(The headers of a session's steps by layouts.py, for this module alone.)

A message is ZeroMQ multipart: routing frames | header (one msgpack map) | body frames. Body frames are UTF-8 text or
little-endian uint32 numbers; their contents are never looked at here (the worker checks UTF-8). Between broker and
worker one more map, the envelope, precedes the header, so that the broker forwards a request without repacking it.

Request header            meaning                                              on which operations
    v    int              protocol version, 1                                  all
    op   str              operation, see OPERATIONS                            all
    rq   bytes[16]        request id: 8 bytes of the client, 8 of its counter  all
    tn   str              tenant; '' when left out                             all, optional
    dl   int              milliseconds left until the client gives up          all, optional
    tk   str              tokenizer: sha256 hex, or its name                   those that touch text or ids, restore
    fl   int              flags: 1 add_special_tokens, 2 split_special_tokens,
                          4 skip_special_tokens; 0 when left out               encode, batch, count, decode, full,
                                                                               adopt, seed
    ss   str              session id                                           session operations
    rv   int              revision that the change builds on                   append, edit, fork, adopt, seed
    dg   bytes[16]        running digest of the text that it builds on         append, edit, fork, adopt, seed
    at   [int, int]       code points [start, stop) that an edit replaces      edit
    ns   str              id of the session that a fork makes                  fork

Reply header: v, rq (nil where the request's id could not be read), cd (code: 'ok' or one of CODES), and where they
apply ms (message for people), ra (milliseconds to wait before a retry), rv, dg, at ([start, stop) of the ids that the
body replaces), pa (path), ch (code points encoded), n (a count), tz (tokenizers: name, sha256, status, reason, and
demoted: since when, where it is), st (counters), lm (limits).

`adopt` is between workers: one that leaves sends its sessions, each in a `handover` envelope, and the broker sends each
to its next owner, whose session then stands at that very revision. A client that asks for it is refused.

`seed` is how a fresh worker's answer to a `full` becomes the owner's session without a second encode. Its body: the
text, its ids, and the cuts and then the marks of `kernels.engine.Marked`; its request id is that of the `full`. The
fresh worker puts header and last frame behind its reply (envelope: `seeded`); the broker adds the frames that it holds
anyway, the text of the request and the ids of the reply, and places the seed with the owner as it passes the reply on.
A client that asks for it is refused.

`restore` is an operator's: it lifts a tokenizer's demotion to the reference (`Demotion`) on every worker; `n` in its
reply is 1, or 0 where there was nothing to lift. Until there is authentication, whoever reaches the endpoint may ask.

The headers of an append and of a reply with a patch have their keys in one order and their values in one width, so that
they are read without parsing a map (layouts.py): v, op, tn, tk, ss, rq, dl, rv, dg; and v, cd, pa, rq, rv, dg, ch, at.
A map in another order says the same and is answered the same.

Digests are chained blake2b-16 (`digest_full`, `digest_change`): both sides compute one in time of the change.

Limits: no sockets, no clock, no policy (routing.py), no meaning of text (workers/).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgpack

from . import layouts
from .constants import (
    ADD_SPECIAL_TOKENS,
    BAD_REQUEST,
    BUSY,
    CODES,
    DIGEST_BYTES,
    FLAGS_ALL,
    FRAMES_MAX,
    HEADER_MAX_BYTES,
    INTERNAL,
    IPC_PATH_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    OK,
    REPLY_EXPANSION,
    REQUEST_ID_BYTES,
    SESSION_ID_MAX_BYTES,
    SHUTTING_DOWN,
    SKIP_SPECIAL_TOKENS,
    SPLIT_SPECIAL_TOKENS,
    STALE,
    TENANT_MAX_BYTES,
    TOKENIZER_MAX_BYTES,
    TOO_LARGE,
    UNAUTHORIZED,
    UNKNOWN_TOKENIZER,
)
from .meeting import default_endpoint, runtime_directory

Buffer = bytes | memoryview

VERSION: Final = layouts.VERSION

#: Up to here a header is read the quick way; one of ours with ids of 64 characters has 300.
_QUICK_HEADER_BYTES: Final = 1024
#: Milliseconds that a client may have left: three weeks.
_BUDGET_MAX_MS: Final = 2**31
_REVISION_END: Final = 2**63

SessionKey = tuple[str, str]  # tenant, session id


class WireError(Exception):
    """A message that the wire's rules refuse: its code, what is wrong where, and the request's id if it was legible."""

    def __init__(self, code: str, message: str, request_id: bytes | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id


class Operation(NamedTuple):
    """What a request of one operation holds, and who answers it."""

    required: frozenset[str]
    optional: frozenset[str]
    #: Body frames, exactly.
    frames: int
    #: 'broker' answers itself; 'any' worker may; 'owner' is the worker that has the session, 'heir' the one that takes
    #: it over from another worker: no client asks for that.
    answered_by: Literal["broker", "any", "owner", "heir"]
    #: Whether a fresh worker may answer it too: whole texts to encode.
    fresh: bool = False


_ALWAYS = frozenset({"v", "op", "rq"})
_EVERYWHERE = frozenset({"tn", "dl"})


def _operation(
    answered_by: Literal["broker", "any", "owner", "heir"],
    frames: int,
    required: str = "",
    optional: str = "",
    fresh: bool = False,
) -> Operation:
    return Operation(
        _ALWAYS | frozenset(required.split()), _EVERYWHERE | frozenset(optional.split()), frames, answered_by, fresh
    )


OPERATIONS: Final[dict[str, Operation]] = {
    "hello": _operation("broker", 0),
    "ping": _operation("broker", 0),
    "stats": _operation("broker", 0),
    "restore": _operation("broker", 0, "tk"),
    "encode": _operation("any", 1, "tk", "fl", fresh=True),
    # body: byte lengths (uint32), the texts one after the other
    "batch": _operation("any", 2, "tk", "fl", fresh=True),
    "count": _operation("any", 1, "tk", "fl", fresh=True),
    "offsets": _operation("any", 1, "tk"),
    "pieces": _operation("any", 1, "tk"),
    "decode": _operation("any", 1, "tk", "fl"),
    "full": _operation("owner", 1, "tk ss", "fl", fresh=True),
    "append": _operation("owner", 1, "tk ss rv dg"),
    "edit": _operation("owner", 1, "tk ss rv dg at"),
    "fork": _operation("owner", 0, "tk ss rv dg ns"),
    "close": _operation("owner", 0, "ss"),
    "adopt": _operation("heir", 1, "tk ss rv dg", "fl"),
    "seed": _operation("heir", 3, "tk ss rv dg", "fl"),
}


def _text(limit_bytes: int, may_be_empty: bool = False) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if type(value) is not str:
            return f"must be a string, not {_kind(value)}"
        size = len(value.encode())
        if size > limit_bytes:
            return f"is {size} bytes long; the limit is {limit_bytes}"
        return None if value or may_be_empty else "is empty"

    return check


def _bytes(length: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if type(value) is not bytes:
            return f"must be {length} bytes, not {_kind(value)}"
        return None if len(value) == length else f"must be {length} bytes, not {len(value)}"

    return check


def _integer(low: int, high: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if type(value) is not int:
            return f"must be an integer, not {_kind(value)}"
        return None if low <= value <= high else f"must lie in {low}..{high}, not {value}"

    return check


def _range(value: Any) -> str | None:
    if type(value) is not list or len(value) != 2 or any(type(bound) is not int for bound in value):
        return f"must be two integers, not {_kind(value)}"
    return None if 0 <= value[0] <= value[1] else f"must be a range 0 <= start <= stop, not {value[0]}:{value[1]}"


def _operation_name(value: Any) -> str | None:
    if type(value) is not str:
        return f"must be a string, not {_kind(value)}"
    return None if value in OPERATIONS else f"{value[:40]!r} is not an operation; they are {', '.join(OPERATIONS)}"


def _version(value: Any) -> str | None:
    return (
        None
        if type(value) is int and value == VERSION
        else f"{value!r:.40} is not spoken here; this is version {VERSION}"
    )


#: Each header key: its name for people, and what is wrong with a value (None: nothing). Order of checking.
FIELDS: Final[dict[str, tuple[str, Callable[[Any], str | None]]]] = {
    "v": ("protocol version", _version),
    "op": ("operation", _operation_name),
    "rq": ("request id", _bytes(REQUEST_ID_BYTES)),
    "tn": ("tenant", _text(TENANT_MAX_BYTES, may_be_empty=True)),
    "dl": ("milliseconds left", _integer(0, _BUDGET_MAX_MS)),
    "tk": ("tokenizer", _text(TOKENIZER_MAX_BYTES)),
    "fl": ("flags", _integer(0, FLAGS_ALL)),
    "ss": ("session id", _text(SESSION_ID_MAX_BYTES)),
    "rv": ("revision", _integer(0, _REVISION_END - 1)),
    "dg": ("digest", _bytes(DIGEST_BYTES)),
    "at": ("range", _range),
    "ns": ("new session id", _text(SESSION_ID_MAX_BYTES)),
}

_KINDS: Final = {dict: "a map", list: "an array", str: "a string", bytes: "bytes", bool: "a boolean", float: "a float"}


def _kind(value: Any) -> str:
    return "nil" if value is None else _KINDS.get(type(value), type(value).__name__)


@dataclass(slots=True)
class Request:
    """One request, checked. Fields that its operation does not have keep their defaults."""

    op: str
    request_id: bytes
    tenant: str = ""
    budget_ms: int | None = None
    tokenizer: str = ""
    flags: int = 0
    session: str = ""
    revision: int = 0
    digest: bytes = b""
    start: int = 0
    stop: int = 0
    new_session: str = ""
    body: Sequence[Buffer] = ()

    @property
    def key(self) -> SessionKey:
        return self.tenant, self.session

    @property
    def new_key(self) -> SessionKey:
        return self.tenant, self.new_session


def pack_request(request: Request) -> list[Buffer]:
    """Return the frames of a request: header, then its body."""
    if request.op == "append" and request.budget_ms is not None:
        head = layouts.Head(request.tenant, request.tokenizer, request.session)
        packed = layouts.pack_append(head, request.request_id, request.budget_ms, request.revision, request.digest)
        if packed is not None:
            return [packed, *request.body]
    operation = OPERATIONS[request.op]
    header: dict[str, Any] = {"v": VERSION, "op": request.op, "rq": request.request_id}
    if request.tenant:
        header["tn"] = request.tenant
    if request.budget_ms is not None:
        header["dl"] = request.budget_ms
    if "tk" in operation.required:
        header["tk"] = request.tokenizer
    if "fl" in operation.optional and request.flags:
        header["fl"] = request.flags
    if "ss" in operation.required:
        header["ss"] = request.session
    if "rv" in operation.required:
        header["rv"] = request.revision
        header["dg"] = request.digest
    if "at" in operation.required:
        header["at"] = [request.start, request.stop]
    if "ns" in operation.required:
        header["ns"] = request.new_session
    return [msgpack.packb(header), *request.body]


def unpack_request(frames: Sequence[Buffer], message_max_bytes: int = MESSAGE_MAX_BYTES) -> Request:
    """Check and read a request's frames (without routing frames).

    Raises WireError, which names the place. Sizes are checked before anything is parsed.
    """
    known = _read_known(frames, message_max_bytes)
    if known is not None:
        return known
    request = _read_quickly(frames, message_max_bytes) or _read_closely(frames, message_max_bytes)
    if request.op == "append" and request.budget_ms is not None and type(frames[0]) is bytes:
        head = layouts.Head(request.tenant, request.tokenizer, request.session)
        header = (head, request.request_id, request.budget_ms, request.revision, request.digest)
        layouts.learn_append(frames[0], header)
    return request


def _read_known(frames: Sequence[Buffer], message_max_bytes: int) -> Request | None:
    """Read an append whose like was read before; None for all else, and for what its tail or its body has wrong."""
    if len(frames) != 2 or type(frames[0]) is not bytes:
        return None
    found = layouts.read_append(frames[0])
    if found is None:
        return None
    (tenant, tokenizer, session), request_id, budget_ms, revision, digest = found
    if budget_ms > _BUDGET_MAX_MS or revision >= _REVISION_END or len(frames[0]) + len(frames[1]) > message_max_bytes:
        return None
    return Request("append", request_id, tenant, budget_ms, tokenizer, 0, session, revision, digest, body=frames[1:])


def _read_quickly(frames: Sequence[Buffer], message_max_bytes: int) -> Request | None:
    """Read a request that is right in every point and written as `pack_request` does it; None for all others.

    The same rules as in FIELDS and OPERATIONS, without their words: the close reading finds those. Each message is read
    twice on its way, so this is most of what the wire costs.
    """
    try:
        if len(frames[0]) > _QUICK_HEADER_BYTES:
            return None
        header = msgpack.unpackb(frames[0])
        op = header["op"]
        operation = _SHAPES[tuple(header)][op]
        request_id = header["rq"]
        version = header["v"]
        if not (type(version) is int and version == VERSION):
            return None
        if not (type(request_id) is bytes and len(request_id) == REQUEST_ID_BYTES):
            return None
        if len(frames) != operation.frames + 1 or sum(map(len, frames)) > _largest(op, message_max_bytes):
            return None
        get = header.get
        request = Request(op, request_id, get("tn", ""), get("dl"), get("tk", ""), get("fl", 0), get("ss", ""))
        budget_ms = request.budget_ms
        if not (
            # A code point has at most four bytes, and this is the quick way: texts that may be too long take the other.
            type(request.tenant) is str
            and len(request.tenant) <= TENANT_MAX_BYTES // 4
            and (
                "dl" not in header if budget_ms is None else type(budget_ms) is int and 0 <= budget_ms <= _BUDGET_MAX_MS
            )
            and type(request.flags) is int
            and 0 <= request.flags <= FLAGS_ALL
        ):
            return None
        required = operation.required
        if "tk" in required:
            tokenizer = request.tokenizer
            if not (type(tokenizer) is str and 0 < len(tokenizer) <= TOKENIZER_MAX_BYTES and tokenizer.isascii()):
                return None
        if "ss" in required:
            session = request.session
            if not (type(session) is str and 0 < len(session) <= SESSION_ID_MAX_BYTES // 4):
                return None
            if "rv" in required:
                revision, digest = header["rv"], header["dg"]
                if not (type(revision) is int and 0 <= revision < _REVISION_END):
                    return None
                if not (type(digest) is bytes and len(digest) == DIGEST_BYTES):
                    return None
                request.revision, request.digest = revision, digest
                if "at" in required:
                    if type(header["at"]) is not list:
                        return None
                    start, stop = header["at"]
                    if not (type(start) is int and type(stop) is int and 0 <= start <= stop):
                        return None
                    request.start, request.stop = start, stop
                elif "ns" in required:
                    new_session = header["ns"]
                    if not (type(new_session) is str and 0 < len(new_session) <= SESSION_ID_MAX_BYTES // 4):
                        return None
                    request.new_session = new_session
        request.body = frames[1:]
        return request
    except Exception:  # whatever it is, the close reading says it in words
        return None


def _largest(op: object, message_max_bytes: int) -> int:
    """Return how large a request may be: a seed holds a client's text and the reply to it."""
    return message_max_bytes * (1 + REPLY_EXPANSION) if op == "seed" else message_max_bytes


def _read_closely(frames: Sequence[Buffer], message_max_bytes: int) -> Request:
    header, request_id = _read_header(frames, message_max_bytes)
    for key, (name, check) in FIELDS.items():
        if key in header:
            wrong = check(header[key])
            if wrong is not None:
                raise WireError(BAD_REQUEST, f"header key '{key}' ({name}): {wrong}", request_id)
        elif key in _ALWAYS:
            raise WireError(BAD_REQUEST, f"header key '{key}' ({name}) is missing", request_id)
    op = header["op"]
    operation = OPERATIONS[op]
    missing = operation.required - header.keys()
    if missing:
        key = min(missing)
        raise WireError(BAD_REQUEST, f"header key '{key}' ({FIELDS[key][0]}) is missing; '{op}' needs it", request_id)
    surplus = header.keys() - operation.required - operation.optional
    if surplus:
        key = min(surplus)
        raise WireError(BAD_REQUEST, f"header key '{key}' ({FIELDS[key][0]}) does not belong to '{op}'", request_id)
    if len(frames) - 1 != operation.frames:
        raise WireError(
            BAD_REQUEST, f"'{op}' has {operation.frames} body frames, this message has {len(frames) - 1}", request_id
        )
    start, stop = header.get("at", (0, 0))
    return Request(
        op,
        header["rq"],
        header.get("tn", ""),
        header.get("dl"),
        header.get("tk", ""),
        header.get("fl", 0),
        header.get("ss", ""),
        header.get("rv", 0),
        header.get("dg", b""),
        start,
        stop,
        header.get("ns", ""),
        frames[1:],
    )


def _shapes() -> dict[tuple[str, ...], dict[str, Operation]]:
    """Return, for every order of keys in which `pack_request` writes a header, the operations that have it."""
    shapes: dict[tuple[str, ...], dict[str, Operation]] = {}
    for op, operation in OPERATIONS.items():
        optional = sorted(operation.optional)
        for chosen in range(2 ** len(optional)):
            keys = operation.required | {key for place, key in enumerate(optional) if chosen >> place & 1}
            shape = tuple(key for key in FIELDS if key in keys)
            shapes.setdefault(shape, {})[op] = operation
    return shapes


_SHAPES: Final = _shapes()


def _read_header(frames: Sequence[Buffer], message_max_bytes: int) -> tuple[dict[str, Any], bytes | None]:
    """Return the header as a map with known keys, and the request's id when it is legible."""
    if not frames:
        raise WireError(BAD_REQUEST, "the message has no header frame")
    # A header over its limit is not parsed, so a request with one can be answered only without its id.
    if len(frames[0]) > HEADER_MAX_BYTES:
        raise WireError(TOO_LARGE, f"the header frame has {len(frames[0])} bytes; the limit is {HEADER_MAX_BYTES}")
    try:
        header = msgpack.unpackb(frames[0], raw=False, strict_map_key=True)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise WireError(BAD_REQUEST, f"the header frame is not msgpack: {error}") from None
    if type(header) is not dict:
        raise WireError(BAD_REQUEST, f"the header frame must hold a msgpack map, not {_kind(header)}")
    legible = header.get("rq")
    request_id = legible if type(legible) is bytes and len(legible) == REQUEST_ID_BYTES else None
    if len(frames) > FRAMES_MAX:
        raise WireError(BAD_REQUEST, f"the message has {len(frames)} frames; the limit is {FRAMES_MAX}", request_id)
    size = sum(len(frame) for frame in frames)
    limit = _largest(header.get("op"), message_max_bytes)
    if size > limit:
        raise WireError(TOO_LARGE, f"the message has {size} bytes; the limit is {limit}", request_id)
    for key in header:
        if key not in FIELDS:
            raise WireError(BAD_REQUEST, f"header key {key!r:.40} is unknown", request_id)
    return header, request_id


@dataclass(slots=True)
class Reply:
    """One reply. Which fields are set follows from the request's operation."""

    request_id: bytes | None
    code: str = OK
    message: str = ""
    retry_after_ms: int | None = None
    revision: int | None = None
    digest: bytes | None = None
    start: int | None = None
    stop: int | None = None
    path: str | None = None
    chars_encoded: int | None = None
    count: int | None = None
    tokenizers: list[dict[str, str]] | None = None
    stats: dict[str, Any] | None = None
    limits: dict[str, int] | None = None
    body: Sequence[Buffer] = field(default=())


def pack_reply(reply: Reply) -> list[Buffer]:
    """Return the frames of a reply: header, then its body."""
    packed = _pack_patch(reply)
    if packed is not None:
        return [packed, *reply.body]
    header: dict[str, Any] = {"v": VERSION, "rq": reply.request_id, "cd": reply.code}
    if reply.message:
        header["ms"] = reply.message
    if reply.retry_after_ms is not None:
        header["ra"] = reply.retry_after_ms
    if reply.revision is not None:
        header["rv"] = reply.revision
    if reply.digest is not None:
        header["dg"] = reply.digest
    if reply.path is not None:
        header["pa"] = reply.path
    if reply.chars_encoded is not None:
        header["ch"] = reply.chars_encoded
    if reply.count is not None:
        header["n"] = reply.count
    if reply.tokenizers is not None:
        header["tz"] = reply.tokenizers
    if reply.stats is not None:
        header["st"] = reply.stats
    if reply.limits is not None:
        header["lm"] = reply.limits
    if reply.start is not None:
        header["at"] = [reply.start, reply.stop]
    return [msgpack.packb(header), *reply.body]


def _pack_patch(reply: Reply) -> bytes | None:
    """Return the header of a reply with a patch and nothing else; None for any other."""
    if (
        reply.path is None
        or reply.request_id is None
        or reply.revision is None
        or reply.digest is None
        or reply.chars_encoded is None
        or reply.start is None
        or reply.stop is None
        or reply.code != OK
        or reply.message
        or reply.retry_after_ms is not None
        or reply.count is not None
        or reply.tokenizers is not None
        or reply.stats is not None
        or reply.limits is not None
    ):
        return None
    return layouts.pack_patch(
        reply.path,
        reply.request_id,
        reply.revision,
        reply.digest,
        reply.chars_encoded,
        reply.start,
        reply.stop,
    )


def unpack_reply(frames: Sequence[Buffer]) -> Reply:
    """Read a reply. Raises WireError('internal') when a broker of another version or no broker at all answered."""
    if frames and type(frames[0]) is bytes:
        patch = layouts.read_patch(frames[0])
        if patch is not None:
            path, request_id, revision, digest, chars, start, stop = patch
            return Reply(request_id, OK, "", None, revision, digest, start, stop, path, chars, body=frames[1:])
    try:
        header = msgpack.unpackb(frames[0])
        if header["v"] != VERSION:
            raise WireError(INTERNAL, f"the broker speaks protocol version {header['v']!r:.40}, this is {VERSION}")
        get = header.get
        start, stop = get("at", _NO_RANGE)
        return Reply(
            header["rq"],
            header["cd"],
            get("ms", ""),
            get("ra"),
            get("rv"),
            get("dg"),
            start,
            stop,
            get("pa"),
            get("ch"),
            get("n"),
            get("tz"),
            get("st"),
            get("lm"),
            frames[1:],
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, msgpack.exceptions.UnpackException) as error:
        raise WireError(INTERNAL, f"what the endpoint answered is not a reply: {error!r}") from None


_NO_RANGE: Final = (None, None)


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


def digest_full(tokenizer_sha256: str, flags: int, text: Buffer) -> bytes:
    """Start a session's running digest: the tokenizer, the flags and the whole text."""
    state = hashlib.blake2b(b"full\0" + bytes([flags]) + tokenizer_sha256.encode() + b"\0", digest_size=DIGEST_BYTES)
    state.update(text)
    return state.digest()


#: The place of an append: start and stop, 0.
_AT_END: Final = bytes(16)


def digest_change(previous: bytes, op: str, start: int, stop: int, payload: Buffer) -> bytes:
    """Carry a running digest over one change, in time of the change. An append has start = stop = 0.

    Equal digests mean equal histories and so equal texts; equal texts reached in different ways differ, which costs
    a resend and is never wrong.
    """
    place = start.to_bytes(8, "little") + stop.to_bytes(8, "little") if stop else _AT_END
    state = hashlib.blake2b(previous + op.encode() + b"\0" + place, digest_size=DIGEST_BYTES)
    state.update(payload)
    return state.digest()


__all__ = [
    "ADD_SPECIAL_TOKENS",
    "BAD_REQUEST",
    "BUSY",
    "CODES",
    "DIGEST_BYTES",
    "ENVELOPES",
    "FIELDS",
    "FLAGS_ALL",
    "FRAMES_MAX",
    "HEADER_MAX_BYTES",
    "INTERNAL",
    "IPC_PATH_MAX_BYTES",
    "MESSAGE_MAX_BYTES",
    "OK",
    "OPERATIONS",
    "REASON_MAX_BYTES",
    "REPLY_EXPANSION",
    "REQUEST_ID_BYTES",
    "SESSION_ID_MAX_BYTES",
    "SHUTTING_DOWN",
    "SKIP_SPECIAL_TOKENS",
    "SPLIT_SPECIAL_TOKENS",
    "STALE",
    "TENANT_MAX_BYTES",
    "TOKENIZER_MAX_BYTES",
    "TOO_LARGE",
    "UNAUTHORIZED",
    "UNKNOWN_TOKENIZER",
    "VERSION",
    "Buffer",
    "Demotion",
    "Envelope",
    "Operation",
    "Reply",
    "Request",
    "SessionKey",
    "WireError",
    "default_endpoint",
    "digest_change",
    "digest_full",
    "done_job",
    "pack_done",
    "pack_envelope",
    "pack_reply",
    "pack_request",
    "pack_work",
    "runtime_directory",
    "unpack_envelope",
    "unpack_reply",
    "unpack_request",
    "work_job",
]
