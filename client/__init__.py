"""tokseam's client: `connect` to a broker, or run the engine in this process with `Embedded`; one surface for both.

>>> from tokseam.client import Embedded
>>> engine = Embedded({"ds": "path/to/tokenizer.json"})  # doctest: +SKIP
>>> engine.session("chat-42").encode("Hello")            # doctest: +SKIP
"""

from .aio import AsyncSession, AsyncTier, connect_async
from .embedded import Embedded, EmbeddedSession
from .session import Outcome, Patch
from .sync import Session, Tier, connect

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
