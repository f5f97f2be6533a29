"""tokseam's client: `connect` to a broker, or run the engine in this process with `Embedded`; one surface for both.

>>> from tokseam.client import Embedded
>>> engine = Embedded({"ds": "path/to/tokenizer.json"})  # doctest: +SKIP
>>> engine.session("chat-42").encode("Hello")            # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from . import errors as errors

if TYPE_CHECKING:
    from .aio import AsyncSession, AsyncTier, connect_async
    from .embedded import Embedded, EmbeddedSession
    from .surface import Outcome, Patch
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

#: Public name -> its module, imported when the name is first asked for: who has a tier should not wait for the engine
#: to load, nor who has the engine for sockets and an event loop.
_MODULES = {
    "AsyncSession": "aio",
    "AsyncTier": "aio",
    "Embedded": "embedded",
    "EmbeddedSession": "embedded",
    "Outcome": "surface",
    "Patch": "surface",
    "Session": "sync",
    "Tier": "sync",
    "connect": "sync",
    "connect_async": "aio",
}


if not TYPE_CHECKING:  # which knows the names from above, and should find a misspelt one

    def __getattr__(name: str) -> object:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
