"""The fresh path of a running tier: what it answers, and what becomes of it when a process dies, hangs or leaves."""

from __future__ import annotations

import functools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from service_support import FAST, client_processes, owners, restarted, wait_for
from tokseam.client import Tier, connect
from tokseam.scripts.serve import RunningTier, running_tier
from tokseam.workers import pinning

Reference = Callable[..., list[int]]

#: Bytes from which on the tiers here use the fresh path.
THRESHOLD = 2_000


@pytest.fixture(scope="module")
def fragile(short_folder: Path, deepseek: Path) -> Iterator[RunningTier]:
    """A tier that these tests may harm."""
    endpoint = f"ipc://{short_folder}/fresh-fragile.sock"
    arguments = [*FAST, "--validate", "--fresh-threshold", str(THRESHOLD)]
    with running_tier({"ds": deepseek}, endpoint=endpoint, arguments=arguments) as running:
        yield running


def whole_text(number: int, size: int = 3 * THRESHOLD) -> str:
    dice = random.Random(number)
    words = ["alpha ", "beta, ", "12345 ", "naïve ", "\n\n", "def f(x):\n    return x\n", "😀 ", "don't "]
    return "".join(dice.choice(words) for _ in range(size // 4))


def fresh_worker(client: Tier) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        return next((worker for worker in client.stats()["workers"] if "engine" in worker), None)

    worker: dict[str, Any] = wait_for(found)
    return worker


def all_ready(client: Tier) -> dict[str, Any]:
    wait_for(lambda: len(owners(client)) == 2)
    return fresh_worker(client)


def is_new(client: Tier, pid: int) -> bool:
    return bool(fresh_worker(client)["pid"] != pid)


def test_whole_texts_go_there_and_seed_their_owners(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        all_ready(client)
        before = client.stats()
        for number in range(8):
            text = whole_text(number)
            with client.session(f"seeded-{number}") as session:
                assert session.encode(text) == reference(text)
                assert session.last.path == "fresh"  # type: ignore[union-attr]
                assert session.append(" and more") == reference(text + " and more")
                assert session.last.path == "append"  # type: ignore[union-attr]
                twin = session.fork(f"twin-{number}")
                assert twin.edit(3, 9, "x") is not None
                assert twin.ids == reference(text[:3] + "x" + text[9:] + " and more")
        texts = [whole_text(number) for number in range(30)]
        assert client.encode_batch(texts) == [reference(text) for text in texts]
        assert client.count(texts[0]) == len(reference(texts[0]))
        assert client.encode(texts[1], add_special_tokens=True) == reference(texts[1], add_special_tokens=True)

        def told() -> bool:
            after = client.stats()
            seeds = after["broker"]["seeds"] - before["broker"]["seeds"]
            made, taken = (after.get(key, 0) - before.get(key, 0) for key in ("seeds_made", "seeds"))
            return bool(0 < seeds == made == taken)

        wait_for(told)
        after = client.stats()
        assert after["broker"]["fresh"] > before["broker"]["fresh"]
        assert after["broker"]["stale"] == before["broker"]["stale"]
        assert (after["seeds_refused"], after["engine_failures"]) == (0, 0)
        assert after["batches"] > before.get("batches", 0)
        assert fresh_worker(client)["engine"].startswith("cpu, ")


def test_it_gives_way_where_it_shares_cores(fragile: RunningTier) -> None:
    cores = pinning.allowed_cores()
    (place,) = pinning.plan_fresh(1, cores, pinning.plan(2, cores))
    with connect(fragile.endpoint) as client:
        pid = all_ready(client)["pid"]
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + place.nice)
        assert os.sched_getaffinity(pid) == set(place.cpus or os.sched_getaffinity(0))


def test_every_thread_of_an_owner_stays_on_its_core(fragile: RunningTier) -> None:
    seats = pinning.plan(2, pinning.allowed_cores())
    with connect(fragile.endpoint) as client:
        all_ready(client)
        for name, worker in owners(client).items():
            seat = seats[int(name.removeprefix("repair-"))]
            threads = [int(task.name) for task in Path(f"/proc/{worker['pid']}/task").iterdir()]
            assert len(threads) >= 2, "ZeroMQ has one of its own"
            for thread in threads:
                assert os.sched_getaffinity(thread) == ({seat.cpu} if seat else os.sched_getaffinity(0))


def test_a_killed_fresh_worker_is_not_noticed(fragile: RunningTier, reference: Reference) -> None:
    trouble: list[BaseException] = []
    done = threading.Event()

    def run(number: int) -> None:
        try:
            with connect(fragile.endpoint) as client, client.session(f"under-load-{number}") as session:
                turn = 0
                while not done.is_set():
                    turn += 1
                    text = whole_text(100 * number + turn)
                    wanted = reference(text + "!")
                    session.encode(text)
                    assert session.append("!") == wanted
                    assert client.encode(text + "!") == wanted
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    with connect(fragile.endpoint) as client:
        for _ in range(3):
            time.sleep(0.4)
            pid = fresh_worker(client)["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_for(functools.partial(is_new, client, pid))
        done.set()
        for thread in threads:
            thread.join(60)
        assert not trouble, trouble
        wait_for(lambda: client.stats()["broker"]["sent"] == 0)


def test_a_hung_fresh_worker_is_done_without(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        pid = all_ready(client)["pid"]
        retried = client.stats()["broker"]["retried"]
        os.kill(pid, signal.SIGSTOP)
        try:
            text = whole_text(1)
            with client.session("hung") as session:
                assert session.encode(text) == reference(text)  # once the broker takes it for dead
                assert client.encode(text) == reference(text)
                assert session.append("!") == reference(text + "!")
            assert client.stats()["broker"]["retried"] > retried
        finally:
            os.kill(pid, signal.SIGCONT)
        assert fresh_worker(client)["pid"] == pid  # it is back, and said ready again
        with client.session("hung") as session:
            assert session.encode(text) == reference(text)


def test_an_owner_that_dies_with_the_seed(fragile: RunningTier, reference: Reference) -> None:
    """It hangs while the fresh worker answers, and is killed before it looked at the seed."""
    with connect(fragile.endpoint) as client:
        all_ready(client)
        for name, worker in owners(client).items():
            os.kill(worker["pid"], signal.SIGSTOP)
            text = whole_text(2)
            sessions = [client.session(f"with-{name}-{number}") for number in range(3)]
            for session in sessions:
                assert session.encode(text) == reference(text)
            os.kill(worker["pid"], signal.SIGKILL)
            for session in sessions:
                assert session.append("!") == reference(text + "!")
            wait_for(functools.partial(restarted, client, name, worker["pid"]))
            for session in sessions:
                assert session.append("?") == reference(text + "!?")
                session.close()


def test_a_fresh_worker_that_leaves_answers_what_it_has(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        pid = all_ready(client)["pid"]
        before = client.stats()["broker"]
        texts = [whole_text(number) for number in range(20)]
        wanted = [reference(text) for text in texts]
        leaving = threading.Timer(0.02, os.kill, (pid, signal.SIGTERM))
        leaving.start()
        for _ in range(5):
            for text, ids in zip(texts, wanted, strict=True):
                assert client.encode(text) == ids
        wait_for(functools.partial(is_new, client, pid))
        after = client.stats()["broker"]
        assert (after["workers_lost"], after["retried"]) == (before["workers_lost"], before["retried"])


def test_a_restarted_broker_hears_of_the_fresh_worker(fragile: RunningTier, reference: Reference) -> None:
    with connect(fragile.endpoint) as client:
        pid = all_ready(client)["pid"]
        text = whole_text(3)
        session = client.session("over-a-restart")
        session.encode(text)
        session.append("?")  # once it is answered, the owner has taken the seed: a broker that dies takes one along
        broker = client.stats()["broker"]["pid"]
        os.kill(broker, signal.SIGKILL)
        other = whole_text(4)
        assert client.encode(other) == reference(other)
        wait_for(lambda: client.stats()["broker"]["pid"] != broker)
        assert all_ready(client)["pid"] == pid
        wait_for(lambda: client.stats()["broker"]["placements"] > 0)  # its owner has told of the session
        assert session.append("!") == reference(text + "?!")
        assert session.last.path == "append"  # type: ignore[union-attr]
        assert session.encode(other) == reference(other)
        assert client.stats()["broker"]["fresh"] > 0
        session.close()


def test_several_processes_on_one_session_id(forced_tier: RunningTier, deepseek: Path) -> None:
    """Every whole text is answered by the fresh worker: seeds of one client overtake another's steps all the time."""
    client_processes(deepseek, forced_tier.endpoint, 60, "fought-over")
    with connect(forced_tier.endpoint) as client:
        broker = client.stats()["broker"]
        assert broker["stale"] > 0
        assert broker["seeds"] > 0


def test_several_processes(forced_tier: RunningTier, deepseek: Path) -> None:
    with connect(forced_tier.endpoint) as client:
        before = client.stats()["broker"]
        for paths in client_processes(deepseek, forced_tier.endpoint, 60):
            assert paths["fresh"] > 0
        after = client.stats()["broker"]
        assert after["stale"] - before["stale"] == after["rerouted"] - before["rerouted"], "nobody lost a session"
