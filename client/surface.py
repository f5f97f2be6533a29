"""What sessions of a tier and in this process have in common: what they return, how they check what they are given.

Limits: no wire, no engine; nothing here keeps anything.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tokseam.broker.constants import SESSION_ID_MAX_BYTES

from .errors import BadRequestError

Path = Literal["append", "edit", "fresh", "reference"]


class Patch(NamedTuple):
    """A change of a session's ids: old[start:stop] = ids."""

    start: int
    stop: int
    ids: list[int]


class Outcome(NamedTuple):
    """How the last call was answered: by what path, over how many code points, in how many seconds for the caller."""

    path: Path
    chars_encoded: int
    seconds: float


def shared_ends(old: str, new: str) -> tuple[int, int]:
    """Return how many code points two texts share at the start and, beyond those, at the end."""
    from tokseam.kernels._native import shared_ends as native  # here, so that errors and types load without the engine

    ends: tuple[int, int] = native(old, new)
    return ends


def utf8(text: str, place: str = "text", offset: int = 0) -> bytes:
    """Return a text as UTF-8. Raises BadRequestError naming the position of a lone surrogate, `offset` added to it.

    >>> utf8("a\\ud800")
    Traceback (most recent call last):
    ...
    tokseam.client.errors.BadRequestError: text: character 1 is U+D800, a lone surrogate, which no UTF-8 text holds
    """
    if not isinstance(text, str):
        raise BadRequestError(f"{place}: must be a str, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        position = error.start + offset
        found = f"U+{ord(text[error.start]):04X}, a lone surrogate, which no UTF-8 text holds"
        raise BadRequestError(f"{place}: character {position} is {found}", position) from None


def check_range(start: int, stop: int, length: int) -> None:
    """Raise BadRequestError unless [start, stop) lies in a text of `length` code points."""
    for name, bound in (("start", start), ("stop", stop)):
        if type(bound) is not int:
            raise BadRequestError(f"edit: {name} must be an int, not {type(bound).__name__}")
    if not 0 <= start <= stop <= length:
        raise BadRequestError(
            f"edit: the range {start}:{stop} does not lie in the session's text of {length} characters",
            stop if 0 <= start <= stop else start,
        )


def check_session_id(session_id: str) -> None:
    """Raise BadRequestError for an id that the wire does not take."""
    size = len(utf8(session_id, "session id"))
    if not 0 < size <= SESSION_ID_MAX_BYTES:
        raise BadRequestError(f"session id: {size} bytes long; it has 1 to {SESSION_ID_MAX_BYTES}")
