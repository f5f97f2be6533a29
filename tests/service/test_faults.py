"""What dies, hangs or forgets is a slower correct answer, unseen by the caller."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from service_support import FAST, restarted, wait_for
from service_support import owners as workers
from tokseam.client import connect, connect_async, errors
from tokseam.scripts.serve import RunningTier, running_tier

Reference = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def fragile(short_folder: Path, deepseek: Path) -> Iterator[RunningTier]:
    """A tier that these tests may harm."""
    endpoint = f"ipc://{short_folder}/fragile.sock"
    arguments = [*FAST, "--validate", "--sessions", "12"]
    with running_tier({"ds": deepseek}, endpoint=endpoint, arguments=arguments) as running:
        yield running


def both_ready(client: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = wait_for(lambda: found if len(found := workers(client)) == 2 else None)
    return found


def test_a_killed_worker_is_not_noticed(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        before = both_ready(client)
        sessions = [client.session(f"killed-{number}") for number in range(6)]
        for session in sessions:
            session.encode("Some text that a worker holds. ")
        for worker in before.values():
            os.kill(worker["pid"], signal.SIGKILL)
        for number, session in enumerate(sessions):
            if number % 2:
                assert session.append("More of it.") == reference("Some text that a worker holds. More of it.")
            else:
                session.edit(5, 9, "words")
                assert session.ids == reference("Some words that a worker holds. ")
        assert client.encode("stateless too") == reference("stateless too")
        after = both_ready(client)
        assert not {one["pid"] for one in before.values()} & {one["pid"] for one in after.values()}
        forked = sessions[0].fork("killed-fork")
        assert forked.append("!") == reference("Some words that a worker holds. !")


def test_a_worker_that_leaves_hands_its_sessions_over(endpoint: str, deepseek: Path, reference: Reference) -> None:
    with (
        running_tier({"ds": deepseek}, endpoint=endpoint, arguments=[*FAST, "--validate"]),
        connect(endpoint) as client,
    ):
        both_ready(client)
        sessions = [client.session(f"handed-{number}") for number in range(6)]
        for session in sessions:
            session.encode("Some text that a worker holds. ")
        stale = client.stats()["broker"]["stale"]
        leaving = next(one for one in both_ready(client).values() if one["placements"])
        before = client.stats()["broker"]["handed_over"]
        os.kill(leaving["pid"], signal.SIGTERM)
        wait_for(lambda: restarted(client, leaving["name"], leaving["pid"]))
        assert client.stats()["broker"]["handed_over"] > before
        for session in sessions:
            assert session.append("More of it.") == reference("Some text that a worker holds. More of it.")
            assert session.last is not None
            assert session.last.path == "append"
        assert client.stats()["broker"]["stale"] == stale


def test_forking_what_a_worker_lost(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        session = client.session("lost")
        session.encode("The parent's text")
        for worker in both_ready(client).values():
            os.kill(worker["pid"], signal.SIGKILL)
        child = session.fork("lost-child")
        assert child.append(" and more") == reference("The parent's text and more")
        assert session.append(" and less") == reference("The parent's text and less")
        both_ready(client)


def test_workers_die_under_load(fragile: RunningTier, reference: Reference) -> None:
    trouble: list[BaseException] = []
    done = threading.Event()

    def run(number: int) -> None:
        try:
            with connect(fragile.endpoint) as client, client.session(f"load-{number}") as session:
                text = ""
                while not done.is_set():
                    text += f"turn {len(text)} of {number}; "
                    assert session.encode(text) == reference(text)
                    assert client.count("stateless " * number) == len(reference("stateless " * number))
                    if len(text) > 2000:
                        text = ""
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    with connect(fragile.endpoint) as client:
        for name in ("repair-0", "repair-1"):
            time.sleep(0.3)
            pid = both_ready(client)[name]["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_for(functools.partial(restarted, client, name, pid))
        done.set()
        for thread in threads:
            thread.join(30)
        assert not trouble, trouble
        wait_for(lambda: client.stats()["broker"]["sent"] == 0)


def test_a_hung_worker_is_replaced(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        session = client.session("hung")
        session.encode("text")
        hung = both_ready(client)
        for worker in hung.values():
            os.kill(worker["pid"], signal.SIGSTOP)
        for worker in hung.values():
            threading.Timer(2.5, os.kill, (worker["pid"], signal.SIGCONT)).start()
        assert session.append(" goes on") == reference("text goes on")
        assert both_ready(client)  # they are back, and said ready again
        assert session.append("!") == reference("text goes on!")


def test_a_killed_broker_comes_back_and_hears_of_sessions(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        both_ready(client)
        session = client.session("broker")
        session.encode("Text that the worker still holds.")
        pid = client.stats()["broker"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: client.stats()["broker"]["pid"] != pid)
        both_ready(client)
        assert session.append(" Indeed.") == reference("Text that the worker still holds. Indeed.")
        assert session.last is not None
        assert session.last.path in ("append", "reference")
        assert client.stats()["broker"]["stale"] == 0


def test_evicted_sessions_come_back(fragile: RunningTier, reference: Reference) -> None:
    """40 sessions over two workers that hold 12 each."""
    with connect(fragile.endpoint) as client:
        sessions = [client.session(f"evicted-{number}") for number in range(40)]
        for turn in range(3):
            for number, session in enumerate(sessions):
                assert session.append(f"turn {turn} of {number}. ") == reference(session.text)
        wait_for(lambda: client.stats()["evicted"] > 50)


def test_a_cancelled_call_leaves_a_usable_session(tier: RunningTier, reference: Reference) -> None:
    async def run() -> None:
        async with await connect_async(tier.endpoint) as client:
            session = await client.session("cancelled")
            text = "a text of some length " * 200
            await session.encode(text)
            for turn in range(20):
                task = asyncio.create_task(session.append_patch(f"turn {turn} "))
                await asyncio.sleep(0.0001 * turn)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert session.ids == reference(session.text)
            assert await session.append("end") == reference(session.text)
            both = await asyncio.gather(*(session.append_patch(f"{n} ") for n in range(10)))
            assert len(both) == 10
            assert session.ids == reference(session.text)
            answers = await asyncio.gather(*(client.encode(f"text {n}") for n in range(50)))
            assert answers == [reference(f"text {n}") for n in range(50)]

    asyncio.run(run())


def test_nobody_there(endpoint: str) -> None:
    started = time.monotonic()
    with pytest.raises(errors.ConnectError, match="nobody answers at"):
        connect(endpoint, connect_timeout=0.3)
    with pytest.raises(errors.ConnectError, match="nobody answers at"):
        asyncio.run(connect_async(endpoint, connect_timeout=0.3))
    assert time.monotonic() - started < 5


def test_a_closed_connection_says_so(tier: RunningTier) -> None:
    client = connect(tier.endpoint)
    client.close()
    client.close()
    with pytest.raises(errors.ClosedError):
        client.encode("x")


def test_a_tier_that_does_not_answer_in_time(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint, timeout=0.3) as client:
        hung = both_ready(client)
        session = client.session("late")
        session.encode("text")
        for worker in hung.values():
            os.kill(worker["pid"], signal.SIGSTOP)
        try:
            with pytest.raises(errors.RequestTimeoutError):
                session.append(" late")
        finally:
            for worker in hung.values():
                os.kill(worker["pid"], signal.SIGCONT)
        assert session.text == "text"
        client.timeout = 30
        both_ready(client)
        assert session.append(" on time") == reference("text on time")
