"""Starting and ending: settings that stop the start, signals that end everything, parents that die."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokseam.client import connect, errors
from tokseam.scripts.serve import RunningTier, running_tier, start_tier


def processes_of(tier: RunningTier) -> list[int]:
    """The supervisor and everything that it started."""
    children = Path(f"/proc/{tier.process.pid}/task/{tier.process.pid}/children").read_text().split()
    return [tier.process.pid, *map(int, children)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids: list[int], seconds: float = 12.0) -> None:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(number: int, endpoint: str, deepseek: Path) -> None:
    tier = start_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=2)
    pids = processes_of(tier)
    assert len(pids) == 6  # this command, the broker, two repair workers, a fresh one, the verifier
    refused: list[BaseException] = []
    answered = threading.Event()

    def work() -> None:
        try:
            with connect(endpoint, timeout=2.0) as client:
                while True:
                    client.count("text " * 1000)
                    answered.set()
        except errors.TokseamError as error:
            refused.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert answered.wait(10)
    started = time.monotonic()
    tier.process.send_signal(number)
    assert tier.process.wait(12) == 0
    assert time.monotonic() - started < 5
    wait_until_gone(pids)
    thread.join(15)
    assert isinstance(refused[0], (errors.ShuttingDownError, errors.ConnectError, errors.RequestTimeoutError))
    assert not Path(endpoint[6:]).exists()
    with running_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=1) as again:  # the path is free
        assert again.ready


def test_a_killed_parent_leaves_no_orphan(endpoint: str, deepseek: Path) -> None:
    tier = start_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=2)
    pids = processes_of(tier)
    tier.process.kill()
    wait_until_gone(pids)


def test_ctrl_c_at_a_terminal(endpoint: str, deepseek: Path) -> None:
    """Ctrl-C signals the whole foreground group; only the supervisor is in it."""
    tier = start_tier({"ds": deepseek}, endpoint=endpoint, repair_workers=1)
    pids = processes_of(tier)
    os.killpg(os.getpgid(tier.process.pid), signal.SIGINT)
    assert tier.process.wait(12) == 0
    wait_until_gone(pids)


def test_the_ready_line(tier: RunningTier) -> None:
    assert re.fullmatch(
        r"tokseam ready: endpoint=ipc://\S+ workers=2 fresh=1 tokenizers=ds:(native|reference)", tier.ready
    )


def test_tcp(deepseek: Path, reference: Callable[[str], list[int]]) -> None:
    for host, family in (("127.0.0.1", socket.AF_INET), ("[::1]", socket.AF_INET6)):
        try:
            with socket.socket(family) as probe:
                probe.bind((host.strip("[]"), 0))
                port = probe.getsockname()[1]
        except OSError:
            continue  # this machine has no IPv6
        with running_tier({"ds": deepseek}, endpoint=f"tcp://{host}:{port}", repair_workers=1) as running:
            with connect(running.endpoint) as client:
                assert client.encode("over tcp") == reference("over tcp")
                assert client.session("tcp").encode("x" * 300_000) == reference("x" * 300_000)
            with pytest.raises(RuntimeError, match=r"in use|Address already"):
                start_tier({"ds": deepseek}, endpoint=running.endpoint, repair_workers=1)


def test_a_second_broker_is_refused(tier: RunningTier, deepseek: Path) -> None:
    with pytest.raises(RuntimeError, match="served by another broker, which is alive"):
        start_tier({"ds": deepseek}, endpoint=tier.endpoint)
    with connect(tier.endpoint) as client:
        assert client.count("still served") > 0


def run_cli(*arguments: str, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "tokseam.scripts.cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--tokenizer", "ds=/nowhere.json"], {}, "No such file"),
        (["--tokenizer", "just-a-name"], {}, "NAME=PATH"),
        (["--tokenizer", "t=tiktoken:nope"], {}, "has no encoding 'nope'"),
        ([], {}, "--tokenizer"),
        (["--tokenizer", "ds={ds}", "--repair-workers", "0"], {}, "--repair-workers"),
        (["--tokenizer", "ds={ds}", "--fresh-workers", "-1"], {}, "--fresh-workers"),
        (["--tokenizer", "ds={ds}"], {"TOKSEAM_FRESH_THRESHOLD": "2 KB"}, "--fresh-threshold"),
        (["--tokenizer", "ds={ds}"], {"TOKSEAM_FRESH_THREADS": "all"}, "--fresh-threads"),
        (["--tokenizer", "ds={ds}"], {"TOKSEAM_REPAIR_WORKERS": "many"}, "--repair-workers"),
        (["--tokenizer", "ds={ds}"], {"TOKSEAM_ENDPOINT": "http://x"}, "ipc://PATH or tcp://HOST:PORT"),
        (["--tokenizer", "ds={ds}", "--endpoint", "ipc:///tmp/" + "x" * 200], {}, "at most 107"),
        (["--tokenizer", "ds={ds}", "--tokenizer", "ds={ds}"], {}, "given twice"),
        ([], {"TOKSEAM_TOKENIZERS": "ds=/nowhere.json"}, "No such file"),
        (["--tokenizer", "ds={ds}", "--shadow-rate", "1.5"], {}, "--shadow-rate"),
        (["--tokenizer", "ds={ds}"], {"TOKSEAM_QUARANTINE_DIR": "/dev/null/q"}, "/dev/null/q: Not a directory"),
    ],
)
def test_a_bad_setting_stops_the_start(
    arguments: list[str], environment: dict[str, str], says: str, deepseek: Path
) -> None:
    done = run_cli("serve", *(one.replace("{ds}", str(deepseek)) for one in arguments), **environment)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
