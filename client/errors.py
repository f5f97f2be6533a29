"""Every error that the client raises: one tree, one class for each code of the wire, two that only a client can meet.

After any of them the session or tier it came from is as it was before the call, and usable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokseam.broker import constants

if TYPE_CHECKING:
    from tokseam.broker.protocol import Reply


class TokseamError(Exception):
    """Whatever goes wrong between a caller and its ids."""

    #: The wire's code for this error; empty for those that never travel.
    code: str = ""


class StaleError(TokseamError):
    """The worker's state is of another text. The client sends the full text by itself; seen only if that fails too."""

    code = constants.STALE


class BusyError(TokseamError):
    """The tier is full: the caller should come again after `retry_after` seconds. Retried until the call's timeout."""

    code = constants.BUSY

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooLargeError(TokseamError):
    """A text or message is over a limit: the caller must send less, or the operator raise the limit."""

    code = constants.TOO_LARGE


class BadRequestError(TokseamError, ValueError):
    """The input is wrong; the message names the place: the caller must mend it."""

    code = constants.BAD_REQUEST

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        #: Where in the input (code points of a text, bytes of UTF-8, entries of ids), when one place is at fault.
        self.position = position


class UnknownTokenizerError(TokseamError, LookupError):
    """No tokenizer of this name or hash is registered: the caller must choose another, or the operator add it."""

    code = constants.UNKNOWN_TOKENIZER


class UnauthorizedError(TokseamError):
    """The tier does not serve this caller: the operator must allow it."""

    code = constants.UNAUTHORIZED


class ShuttingDownError(TokseamError):
    """The tier is going away: the caller should use another."""

    code = constants.SHUTTING_DOWN


class InternalError(TokseamError):
    """The tier failed: its operator should look at the log. The request may be tried again."""

    code = constants.INTERNAL


class ConnectError(TokseamError, ConnectionError):
    """Nobody answers at the endpoint: the operator must start a tier, or the caller name the right endpoint."""


class RequestTimeoutError(TokseamError, TimeoutError):
    """No answer within the call's timeout. Whether it was carried out is unknown; calling again is safe."""


class BadTokenizerError(TokseamError, ValueError):
    """A tokenizer's file or object can't be read as one (embedded only): the caller must mend it."""


class ClosedError(TokseamError):
    """The session or tier was closed: the caller must open another."""


#: Wire code -> class; all of protocol.CODES.
BY_CODE: dict[str, type[TokseamError]] = {
    cls.code: cls
    for cls in (
        StaleError,
        BusyError,
        TooLargeError,
        BadRequestError,
        UnknownTokenizerError,
        UnauthorizedError,
        ShuttingDownError,
        InternalError,
    )
}


def error_of(reply: Reply) -> TokseamError:
    """Return the error that a reply with a code other than 'ok' stands for."""
    if reply.code == constants.BUSY:
        return BusyError(reply.message, (reply.retry_after_ms or 0) / 1000)
    cls = BY_CODE.get(reply.code, InternalError)
    return cls(reply.message)
