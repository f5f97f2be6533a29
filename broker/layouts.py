"""The two headers that come with every step of a session, at known places: an append's, and that of a patch.

Both are msgpack maps as protocol.py describes them, and whoever parses msgpack reads them as such. But what a session
repeats stands first (the head), and what changes stands behind it (the tail), each key in its place and each value in
one width. So nobody has to make or parse a map for a step: a head that was checked once is known by its bytes, and the
tail is read by place. A step's two headers are written and read five times on their way, each time by a process whose
caches the others emptied; there a map costs several times what it costs in a loop.

Limits: bytes and fields, no rules. What a header may say is for requests.py to check: a head is learned from a request
that passed there, and only where `pack_append` would have written that very frame. Whatever else comes is None here,
and is read as a map. One thread at a time learns heads: a broker and a worker have one.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgpack

from .constants import VERSION

#: Heads kept, some 400 bytes each: a session has one. The one learned first goes; to learn it anew costs one map.
HEADS_MAX: Final = 4096

#: Behind an append's head: rq (bytes[16]), dl (uint 32), rv (uint 64), dg (bytes[16]).
_APPEND: Final = struct.Struct(">5s16s4sI4sQ5s16s")
_APPEND_KEYS: Final = 4
#: Behind a patch's head: rq, rv, dg, ch (uint 32), at (an array of two uint 32).
_PATCH: Final = struct.Struct(">5s16s4sQ5s16s4sI5sIcI")
_PATCH_KEYS: Final = 5

_RQ: Final = b"\xa2rq\xc4\x10"
_DL: Final = b"\xa2dl\xce"
_RV: Final = b"\xa2rv\xcf"
_DG: Final = b"\xa2dg\xc4\x10"
_CH: Final = b"\xa2ch\xce"
_AT: Final = b"\xa2at\x92\xce"
_STOP: Final = b"\xce"

#: Bytes of an id and of a digest.
_SIXTEEN: Final = 16
_UINT32_END: Final = 2**32
_UINT64_END: Final = 2**64


class Head(NamedTuple):
    """What an append's head says."""

    tenant: str
    tokenizer: str
    session: str


#: An append's header: its head, request id, budget in milliseconds, revision, digest.
Append = tuple[Head, bytes, int, int, bytes]
#: A patch's header: its path, request id, revision, digest, code points encoded, start, stop.
Patch = tuple[str, bytes, int, bytes, int, int, int]

#: What the heads of appends say, by their bytes; the one learned first is the first.
_heads: dict[bytes, Head] = {}


def pack_append(head: Head, request_id: bytes, budget_ms: int, revision: int, digest: bytes) -> bytes | None:
    """Return an append's header; None where a value does not fit its place."""
    fits = len(request_id) == len(digest) == _SIXTEEN and 0 <= budget_ms < _UINT32_END and 0 <= revision < _UINT64_END
    if not fits:
        return None
    return _append_head(head) + _APPEND.pack(_RQ, request_id, _DL, budget_ms, _RV, revision, _DG, digest)


def learn_append(frame: bytes, header: Append) -> None:
    """Keep the head of a header that was checked, if `pack_append` writes it so.

    Then its tail begins where it does in each frame that begins alike, and the same head says the same.
    """
    if pack_append(*header) != frame:
        return
    while len(_heads) >= HEADS_MAX:
        _heads.pop(next(iter(_heads)), None)
    _heads[frame[: -_APPEND.size]] = header[0]


def read_append(frame: bytes) -> Append | None:
    """Read an append's header whose head is known; None for any other frame. The tail's values are not checked."""
    head = _heads.get(frame[: -_APPEND.size])
    if head is None:
        return None
    rq, request_id, dl, budget_ms, rv, revision, dg, digest = _APPEND.unpack_from(frame, len(frame) - _APPEND.size)
    if rq != _RQ or dl != _DL or rv != _RV or dg != _DG:
        return None
    return head, request_id, budget_ms, revision, digest


def pack_patch(
    path: str, request_id: bytes, revision: int, digest: bytes, chars_encoded: int, start: int, stop: int
) -> bytes | None:
    """Return a patch's header; None where a value does not fit its place."""
    head = _PATCH_HEADS.get(path)
    fits = (
        len(request_id) == len(digest) == _SIXTEEN
        and 0 <= revision < _UINT64_END
        and 0 <= chars_encoded < _UINT32_END
        and 0 <= start < _UINT32_END
        and 0 <= stop < _UINT32_END
    )
    if head is None or not fits:
        return None
    return head + _PATCH.pack(_RQ, request_id, _RV, revision, _DG, digest, _CH, chars_encoded, _AT, start, _STOP, stop)


def read_patch(frame: bytes) -> Patch | None:
    """Read a patch's header that `pack_patch` wrote; None for any other frame."""
    path = _PATHS.get(frame[: -_PATCH.size])
    if path is None:
        return None
    rq, request_id, rv, revision, dg, digest, ch, chars_encoded, at, start, between, stop = _PATCH.unpack_from(
        frame, len(frame) - _PATCH.size
    )
    if rq != _RQ or rv != _RV or dg != _DG or ch != _CH or at != _AT or between != _STOP:
        return None
    return path, request_id, revision, digest, chars_encoded, start, stop


def _head(fields: dict[str, Any], keys_behind: int) -> bytes:
    """Return the beginning of a map that has so many keys more: their number is in the first byte, up to 15."""
    packed: bytes = msgpack.packb(fields)
    return bytes([packed[0] + keys_behind]) + packed[1:]


@lru_cache(maxsize=HEADS_MAX)
def _append_head(head: Head) -> bytes:
    tenant = {"tn": head.tenant} if head.tenant else {}
    return _head({"v": VERSION, "op": "append", **tenant, "tk": head.tokenizer, "ss": head.session}, _APPEND_KEYS)


#: The heads of patches by path, and the paths by head.
_PATCH_HEADS: Final = {
    path: _head({"v": VERSION, "cd": "ok", "pa": path}, _PATCH_KEYS)
    for path in ("append", "edit", "fresh", "reference")
}
_PATHS: Final = {head: path for path, head in _PATCH_HEADS.items()}
