"""tokseam's client: `connect` to a broker, or run the engine in this process with `Embedded`; one surface for both.

>>> from tokseam.client import Embedded
>>> engine = Embedded({"ds": "path/to/tokenizer.json"})  # doctest: +SKIP
>>> engine.session("chat-42").encode("Hello")            # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .aio import AsyncSession, AsyncTier, connect_async
from .session import Outcome, Patch
from .sync import Session, Tier, connect

if TYPE_CHECKING:
    from .embedded import Embedded, EmbeddedSession

__all__ = [
    "AsyncSession",
    "AsyncTier",
    "Embedded",
    "EmbeddedSession",
    "Outcome",
    "Patch",
    "Session",
    "Tier",
    "connect",
    "connect_async",
]


def __getattr__(name: str) -> object:
    # A client of a tier should not wait for the engine and the reference to load.
    if name in ("Embedded", "EmbeddedSession"):
        from . import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
