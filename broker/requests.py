"""Requests: what each operation's may hold, checked and read, and written.

What the keys mean stands in protocol.py. Limits: sizes and forms, no meaning; texts are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgpack

from . import layouts
from .constants import (
    BAD_REQUEST,
    DIGEST_BYTES,
    FLAGS_ALL,
    FRAMES_MAX,
    HEADER_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    REPLY_EXPANSION,
    REQUEST_ID_BYTES,
    SESSION_ID_MAX_BYTES,
    TENANT_MAX_BYTES,
    TOKENIZER_MAX_BYTES,
    TOO_LARGE,
    VERSION,
)
from .messages import Buffer, WireError

#: Up to here a header is read the quick way; one of ours with ids of 64 characters has 300.
_QUICK_HEADER_BYTES: Final = 1024
#: Milliseconds that a client may have left: three weeks.
_BUDGET_MAX_MS: Final = 2**31
_REVISION_END: Final = 2**63

SessionKey = tuple[str, str]  # tenant, session id


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
