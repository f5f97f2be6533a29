"""Replies: written by those who answer, read by those who asked. What the keys mean stands in protocol.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from . import layouts
from .constants import INTERNAL, OK, VERSION
from .messages import Buffer, WireError


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
