"""What requests, replies and envelopes have in common: bytes, and what is said of those that break the rules."""

from __future__ import annotations

Buffer = bytes | memoryview


class WireError(Exception):
    """A message that the wire's rules refuse: its code, what is wrong where, and the request's id if it was legible."""

    def __init__(self, code: str, message: str, request_id: bytes | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id
