"""scripts/gpu_check: what its steps come to, its budget, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokseam.scripts import gpu_check
from tokseam.scripts.gpu_check import Outcome, Result, Step, exit_code, run_all, run_step, summary

CHECKOUT = Path(__file__).resolve().parents[2]


class World:
    """Steps that take so long and exit so, by a clock that only they move."""

    def __init__(self, **ends: tuple[int, float]) -> None:
        self.ends = ends
        self.now = 1000.0
        self.ran: list[str] = []

    def run(self, command: Sequence[str], seconds: float) -> int | None:
        code, takes = self.ends[command[0]]
        self.ran.append(command[0])
        self.now += min(takes, seconds)
        return code if takes <= seconds else None

    def outcomes(self, *steps: Step, budget: float = 100.0) -> list[Outcome]:
        return run_all(steps, self.run, budget, lambda: self.now, lambda line: None)


def step(name: str, needed: bool = False, ours: bool = True, seconds: float = 50.0) -> Step:
    return Step(name, (name,), seconds, needed, ours)


def test_all_is_well() -> None:
    world = World(a=(0, 10), b=(0, 20))
    found = world.outcomes(step("a"), step("b"))
    assert exit_code(found) == 0
    assert summary(found, world.now - 1000) == "gpu_check: 2 of 2 steps ok in 30 s"


def test_a_failure_does_not_hide_the_rest() -> None:
    world = World(a=(1, 1), b=(0, 1), c=(-11, 1))
    found = world.outcomes(step("a"), step("b"), step("c"))
    assert world.ran == ["a", "b", "c"]
    assert exit_code(found) == 1
    assert summary(found, 3) == "gpu_check: 1 of 3 steps ok in 3 s; a: FAILED; c: FAILED"


def test_no_device_ends_it() -> None:
    world = World(device=(2, 1), b=(0, 1))
    found = world.outcomes(step("device", needed=True), step("b"))
    assert world.ran == ["device"]
    assert exit_code(found) == 2
    assert summary(found, 1) == "gpu_check: 0 of 1 steps ok in 1 s; device: nothing to check it with"


def test_two_means_something_else_to_pytest() -> None:
    found = World(a=(2, 1)).outcomes(step("a", ours=False))
    assert [one.result for one in found] == [Result.FAILED]


def test_the_budget_is_kept() -> None:
    world = World(a=(0, 90), b=(0, 90), c=(0, 1))
    found = world.outcomes(step("a", seconds=60), step("b", seconds=60), step("c"))
    assert [one.result for one in found] == [Result.LATE, Result.LATE, Result.NOT_STARTED]
    assert world.now - 1000 == 98
    assert exit_code(found) == 3


def test_its_own_steps_fit_the_budget() -> None:
    """Six minutes with the last words and an end by force; with every step that must not be left out in them."""
    assert gpu_check.BUDGET_S + 2 * gpu_check.GRACE_S < 360
    for with_gpu in (True, False):
        todo = gpu_check.steps(CHECKOUT, with_gpu)
        for number, one in enumerate(todo[:-1]):
            assert sum(before.seconds for before in todo[:number]) < gpu_check.BUDGET_S - 60, one.name
        assert all(Path(part).exists() for one in todo for part in one.command if part.startswith(str(CHECKOUT)))


def test_exit_codes_by_the_worst() -> None:
    made = step("a")
    for results, code in (
        ({Result.OK}, 0),
        ({Result.OK, Result.LATE}, 3),
        ({Result.LATE, Result.NOTHING_HERE}, 2),
        ({Result.NOTHING_HERE, Result.FAILED, Result.LATE}, 1),
    ):
        assert exit_code([Outcome(made, result, 0) for result in results]) == code


#: Starts a process of its own, which would stay, says its id, and waits.
PARENT = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print(child.pid, file=open(sys.argv[1], 'w'), flush=True); time.sleep(600)"
)


def is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_late_step_is_ended_with_its_children(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    started = time.monotonic()
    assert run_step([sys.executable, "-c", PARENT, str(noted)], 1.5) is None
    assert time.monotonic() - started < 1.5 + 2 * gpu_check.GRACE_S
    assert is_gone(int(noted.read_text()))


def test_exit_code_of_a_step() -> None:
    assert run_step([sys.executable, "-c", "import sys; sys.exit(7)"], 30) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    noted = tmp_path / "pid"
    program = (
        # As at a terminal, also where these tests run in the background and a shell has them ignore it.
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tokseam.scripts import gpu_check\n"
        f"one = gpu_check.Step('waits', (sys.executable, '-c', {PARENT!r}, {str(noted)!r}), 300)\n"
        "gpu_check.steps = lambda checkout, with_gpu: [one]\ngpu_check.main([])"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    for _ in range(200):
        if noted.exists() and noted.read_text().strip():
            break
        time.sleep(0.05)
    os.kill(process.pid, number)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "gpu_check: interrupted"
    assert is_gone(int(noted.read_text()))


def test_no_device_by_the_command() -> None:
    """Here there is no CuPy: one line says so, and the code is 2."""
    code = "import sys; sys.modules['cupy'] = None; from tokseam.scripts import gpu_check; sys.exit(gpu_check.device())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == gpu_check.NOTHING_HERE
    assert done.stdout.splitlines() == ["no GPU: CuPy is not installed (`pip install tokseam[gpu]`)"]
