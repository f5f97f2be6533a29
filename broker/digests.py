"""A session's running digest, which both sides carry along: equal ones mean equal histories, and so equal texts."""

from __future__ import annotations

import hashlib
from typing import Final

from .constants import DIGEST_BYTES
from .messages import Buffer


def digest_full(tokenizer_sha256: str, flags: int, text: Buffer) -> bytes:
    """Start a session's running digest: the tokenizer, the flags and the whole text."""
    state = hashlib.blake2b(b"full\0" + bytes([flags]) + tokenizer_sha256.encode() + b"\0", digest_size=DIGEST_BYTES)
    state.update(text)
    return state.digest()


#: What stands for an append and its place in a digest: the operation, and start and stop, 0.
_APPEND: Final = b"append\0" + bytes(16)


def digest_change(previous: bytes, op: str, start: int, stop: int, payload: Buffer) -> bytes:
    """Carry a running digest over one change, in time of the change. An append has start = stop = 0.

    Equal digests mean equal histories and so equal texts; equal texts reached in different ways differ, which costs
    a resend and is never wrong.
    """
    if op == "append":
        change = _APPEND
    else:
        change = op.encode() + b"\0" + start.to_bytes(8, "little") + stop.to_bytes(8, "little")
    state = hashlib.blake2b(previous + change, digest_size=DIGEST_BYTES)
    state.update(payload)
    return state.digest()
