"""The shadow verifier in a running tier: a planted fault is found, demotes its tokenizer everywhere, and is lifted."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import service_support
from click.testing import CliRunner
from service_support import FAST
from tokseam.client import Tier, connect
from tokseam.scripts.cli import main
from tokseam.scripts.serve import READY, RunningTier, running_tier
from tokseam.workers.sampling import OUTBOX_SAMPLES

Reference = Callable[[str], list[int]]


#: Waits long: on a busy machine the verifier runs last of all.
wait_for = functools.partial(service_support.wait_for, seconds=90.0)


def start_faulty(endpoint: str, deepseek: Path, quarantine: Path, *arguments: str) -> RunningTier:
    command = [sys.executable, "-m", "tokseam.workers.child", "--parent", str(os.getpid()), "faulty_serve", "serve"]
    command += ["--tokenizer", f"ds={deepseek}", "--endpoint", endpoint, *FAST, "--validate"]
    command += ["--shadow-rate", "1", "--shadow-bytes-per-s", "1e9", "--quarantine-dir", str(quarantine), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(READY), line
    return RunningTier(endpoint, process, line.strip())


@pytest.fixture
def faulty(endpoint: str, deepseek: Path, tmp_path: Path) -> Iterator[RunningTier]:
    running = start_faulty(endpoint, deepseek, tmp_path / "q")
    yield running
    running.stop()


def entry(client: Tier) -> dict[str, str]:
    (found,) = client.tokenizers()
    return found


def is_demoted(client: Tier) -> bool:
    return entry(client)["status"] == "reference"


def workers(client: Tier) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.stats()["workers"]
    return found


def tokseam(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


def test_a_fault_demotes_everywhere_until_it_is_lifted(
    faulty: RunningTier, deepseek: Path, reference: Reference, tmp_path: Path
) -> None:
    endpoint = faulty.endpoint
    with connect(endpoint) as client:
        sessions = [client.session(f"s{number}") for number in range(12)]
        for session in sessions:
            assert session.encode("A text that stays. ") == reference("A text that stays. ")
            assert session.append("It grows") == reference("A text that stays. It grows")
        wait_for(lambda: client.stats()["shadow"].get("verified", 0) >= 24)
        assert not is_demoted(client)
        owners = [worker for worker in workers(client) if "engine" not in worker]
        assert all(worker["placements"] for worker in owners), "both workers have sessions"

        # The fault: this client has wrong ids now.
        harmed = sessions[0]
        assert harmed.append(", PLANTED here") != reference("A text that stays. It grows, PLANTED here")
        wait_for(lambda: is_demoted(client))
        found = entry(client)
        assert "demoted" in found
        assert "an answer (append, path append) differed from the reference at id" in found["reason"]

        # Every next answer is right, on both workers, planted or not; what the client had wrong is healed.
        for session in sessions:
            text = str(session.text) + " PLANTED"
            assert session.append(" PLANTED") == reference(text)
            assert session.last is not None
            assert session.last.path == "reference"
        assert client.encode("stateless") == reference("stateless")

        # Who is born later knows, too: every process is killed but the supervisor.
        pids = {worker["name"]: worker["pid"] for worker in workers(client)}
        children = Path(f"/proc/{faulty.process.pid}/task/{faulty.process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        wait_for(lambda: len(workers(client)) == 3 and all(pids[one["name"]] != one["pid"] for one in workers(client)))
        for session in sessions:
            text = str(session.text) + " PLANTED"
            assert session.append(" PLANTED") == reference(text)
            assert session.last is not None
            assert session.last.path == "reference"
        wait_for(lambda: client.stats()["shadow"].get("verified") == 12)  # the new one counts anew

        shown = tokseam("status", "--once", "--endpoint", endpoint)
        assert "verifier: sampled" in shown
        assert "ds by reference: demoted" in shown
        assert "demoted" in tokseam("tokenizers", "--endpoint", endpoint)

    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "q").glob("mismatch-*.json")]
    assert record["path"] == "append"
    assert record["first_difference"] == len(reference("A text that stays. It grows, PLANTED here")) - 1
    assert [step["op"] for step in record["history"]] == ["full", "append"]
    assert "text" not in record

    # It outlives the whole tier.
    assert faulty.stop() == 0
    again = start_faulty(endpoint, deepseek, tmp_path / "q")
    try:
        assert "ds:reference" in again.ready
        with connect(endpoint) as client, client.session("s") as session:
            session.encode("A text. ")
            assert session.append("PLANTED") == reference("A text. PLANTED")
            assert "ds is restored" in tokseam("restore", "ds", "--endpoint", endpoint)
            assert "was not demoted" in tokseam("restore", "ds", "--endpoint", endpoint)
            assert entry(client) == {**entry(client), "status": "native", "reason": ""}
            assert session.append(", and on") == reference("A text. PLANTED, and on")
            session.append(" natively")
            assert session.last is not None
            assert session.last.path == "append"
            # What is still wrong is found again.
            session.append(" PLANTED")
            wait_for(lambda: is_demoted(client))
    finally:
        assert again.stop() == 0
    assert not list(Path(endpoint[6:]).parent.glob("*.v"))


def test_a_fresh_workers_fault_demotes_too(endpoint: str, deepseek: Path, reference: Reference, tmp_path: Path) -> None:
    """Its wrong ids are the owner's session too, by the seed: the demotion drops that, and the client is healed."""
    running = start_faulty(endpoint, deepseek, tmp_path / "q", "--fresh-threshold", "0")
    try:
        with connect(endpoint) as client:
            harmed, other = client.session("harmed"), client.session("other")
            assert other.encode("A text as it should be. ") == reference("A text as it should be. ")
            assert harmed.encode("A text with a fault SOWN in") != reference("A text with a fault SOWN in")
            wait_for(lambda: is_demoted(client))
            assert "an answer (full, path fresh) differed from the reference at id" in entry(client)["reason"]
            for session in (harmed, other):
                text = str(session.text) + " SOWN again"
                assert session.append(" SOWN again") == reference(text)
                assert session.last is not None
                assert session.last.path == "reference"
            assert client.encode("stateless SOWN") == reference("stateless SOWN")
            assert client.restore("ds")
            assert harmed.encode("another text") == reference("another text")
            assert harmed.last is not None
            assert harmed.last.path == "fresh"
    finally:
        running.stop()


def test_a_change_that_is_cheaper_as_a_fresh_text(
    endpoint: str, deepseek: Path, reference: Reference, tmp_path: Path
) -> None:
    """The fresh worker here tells of a great speed: a large append behind a short text is its, a short one is not."""
    running = start_faulty(endpoint, deepseek, tmp_path / "q", "--fresh-threshold", "1000")
    try:
        with connect(endpoint) as client:
            session = client.session("grows")
            text = "A short text. " * 100
            wait_for(lambda: client.stats().get("bytes_per_s", 0) >= 10**10)
            assert session.encode(text) == reference(text)
            for delta, path, rerouted in (
                ("A large step. " * 20_000, "fresh", 1),
                ("A small step. " * 100, "append", 1),
            ):
                text += delta
                assert session.append(delta) == reference(text)
                assert session.last is not None
                assert session.last.path == path
                broker = client.stats()["broker"]
                assert (broker["rerouted"], broker["stale"]) == (rerouted, rerouted)
            edited = "Another beginning. " * 20_000
            session.edit(0, 7, edited)
            assert session.ids == reference(edited + text[7:])
            assert client.stats()["broker"]["rerouted"] == 2
    finally:
        running.stop()


def test_a_tier_without_a_verifier(endpoint: str, deepseek: Path, reference: Reference) -> None:
    off = ["--shadow-rate", "0"]
    with running_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=1, arguments=off) as running:
        with connect(endpoint) as client:
            assert client.encode("text") == reference("text")
            assert "verified" not in client.stats()["shadow"]
        assert "verifier: none" in tokseam("status", "--once", "--endpoint", endpoint)
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        assert len(children) == 3  # the broker, a repair and a fresh worker


def test_the_verifier_steps_aside_and_is_never_waited_for(endpoint: str, deepseek: Path, reference: Reference) -> None:
    """It has the lowest priority that it gets, its threads too, and nobody else; stopped, it costs samples alone."""
    rates = ["--shadow-rate", "1", "--shadow-bytes-per-s", "1e9", *FAST]
    with running_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=1, arguments=rates) as running:
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        found: dict[bool, set[tuple[int, bool]]] = {True: set(), False: set()}
        verifier = 0
        for child in children:
            verifies = b"tokseam.workers.shadow" in Path(f"/proc/{child}/cmdline").read_bytes()
            verifier = int(child) if verifies else verifier
            for thread in map(int, os.listdir(f"/proc/{child}/task")):
                low = os.sched_getscheduler(thread) in (os.SCHED_IDLE, os.SCHED_BATCH)
                found[verifies].add((os.getpriority(os.PRIO_PROCESS, thread), low))
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert found == {True: {(19, True)}, False: {(own, False)}}

        with connect(endpoint) as client, client.session("s") as session:
            session.encode("text")
            wait_for(lambda: client.stats()["shadow"].get("verified", 0) == 1)
            os.kill(verifier, signal.SIGSTOP)
            for _ in range(OUTBOX_SAMPLES + 50):
                session.append_patch(" and more")
            assert session.ids == reference(session.text)
            stats = wait_for(lambda: told if (told := client.stats()["shadow"])["dropped"] == 50 else None)
            assert stats["queued"] == OUTBOX_SAMPLES
            os.kill(verifier, signal.SIGCONT)
            wait_for(lambda: client.stats()["shadow"]["queued"] == 0)
            session.append_patch("!")
            wait_for(lambda: client.stats()["shadow"]["drawn"] == 1 + OUTBOX_SAMPLES + 50 + 1)
            wait_for(lambda: client.stats()["shadow"]["verified"] == client.stats()["shadow"]["sampled"])
            stats = client.stats()["shadow"]
            assert stats["drawn"] == stats["sampled"] + stats["dropped"] == 1 + OUTBOX_SAMPLES + 50 + 1
            assert (stats["mismatched"], stats["lost"], stats["skipped"]) == (0, 0, 0)


def test_a_verifier_leaves_what_is_not_its_own(endpoint: str, deepseek: Path, tmp_path: Path) -> None:
    path = Path(endpoint[6:])
    path.write_text("not a socket")
    arguments = ["--endpoint", endpoint, "--back-endpoint", f"{endpoint}.w", "--tokenizer", f"ds={deepseek}"]
    command = [sys.executable, "-m", "tokseam.workers.shadow", *arguments, "--quarantine-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, path.read_text()) == (2, "not a socket")
    assert "not a socket; it is left alone" in done.stderr
