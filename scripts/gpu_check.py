"""What `scripts/gpu_check` runs: the checks and timings of the GPU path, one after the other, within a budget.

With a device: the kernels compile for every architecture; ids, boundaries and marks equal the reference's over the
case table and a campaign; `python -m bench gpu` times it and writes bench/results/gpu-<card>.json. With --no-gpu: the
same kernels under the emulator, the launcher over a CuPy that is none, and the compile checks. The last line sums up.

Exit code: 0 all is well, 1 something is wrong, 2 nothing can be checked here (no device), 3 the time was too short,
130 Ctrl-C. Limits: it judges by the exit codes of what it starts, and leaves no process of theirs behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import click

#: Seconds for everything, and those kept back for the last words.
BUDGET_S = 345.0
LAST_WORDS_S = 2.0
#: Seconds that a step has to end by itself once it is told to.
GRACE_S = 3.0
#: What our own steps exit with that can't do anything here: no device, no compiler.
NOTHING_HERE = 2


class Result(Enum):
    """How a step ended."""

    OK = "ok"
    FAILED = "FAILED"
    NOTHING_HERE = "nothing to check it with"
    LATE = "out of time"
    NOT_STARTED = "no time left"


@dataclass(frozen=True)
class Step:
    """Something to run.

    seconds: how long at most. needed: unless it ends well, nothing else need be tried. ours: it exits with NOTHING_HERE
    where that is so (pytest means something else by it).
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    needed: bool = False
    ours: bool = True


@dataclass(frozen=True)
class Outcome:
    step: Step
    result: Result
    seconds: float


#: Runs a command for so many seconds at most; returns its exit code, None where it was ended.
Runner = Callable[[Sequence[str], float], "int | None"]

#: Tests that need a few seconds a family: what a quick check is content with.
QUICK_FAMILIES = "qwen3 or o200k or llama2"


def steps(checkout: Path, with_gpu: bool) -> list[Step]:
    """Return what is to be run, in order."""
    python = sys.executable
    compile_ = Step(
        "the kernels compile for sm_80, sm_90, sm_100 and sm_120",
        (python, str(checkout / "scripts" / "cuda_compile.py")),
        90,
    )
    pytest = (python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
    if with_gpu:
        asked = "import sys\nfrom tokseam.scripts.gpu_check import device\nsys.exit(device())"
        exact = (*pytest, str(checkout / "tests" / "launcher" / "test_on_device.py"), "--effort", "0.5")
        bench = (python, "-m", "bench", "gpu", "--budget", "120")
        return [
            Step("a device, and its kernels compile", (python, "-c", asked), 60, needed=True),
            Step("ids, boundaries and marks on the device", exact, 150, ours=False),
            Step("times", bench, 150),
            compile_,
        ]
    launcher = str(checkout / "tests" / "launcher")
    emulator = str(checkout / "tests" / "emulator" / "test_batches.py")
    quick = f"not test_on_device and ({QUICK_FAMILIES} or not family)"
    return [
        compile_,
        Step("the launcher over a CuPy that is none", (*pytest, launcher, "-k", quick), 120, ours=False),
        Step(
            "the kernels under the emulator",
            (*pytest, emulator, "-k", QUICK_FAMILIES, "--effort", "0.3"),
            150,
            ours=False,
        ),
    ]


def device() -> int:
    """Say which device is here, or why none is. Returns an exit code."""
    from tokseam.kernels.cuda.launcher import open_launcher
    from tokseam.kernels.errors import NoDeviceError

    try:
        launcher = open_launcher()
    except NoDeviceError as error:
        print(f"no GPU: {error}")
        return NOTHING_HERE
    print(f"{launcher.name}: {launcher.memory.arena >> 20} MiB for buffers")
    launcher.close()
    return 0


def run_all(
    todo: Sequence[Step], run: Runner, budget_s: float, clock: Callable[[], float], say: Callable[[str], None]
) -> list[Outcome]:
    """Run steps while there is time. A step that fails does not keep the next from running; a needed one does."""
    end = clock() + budget_s - LAST_WORDS_S
    outcomes: list[Outcome] = []
    for number, step in enumerate(todo):
        left = end - clock()
        if left <= 0:
            outcomes += [Outcome(one, Result.NOT_STARTED, 0.0) for one in todo[number:]]
            break
        say(f"== {step.name}")
        started = clock()
        code = run(step.command, min(step.seconds, left))
        result = Result.OK if code == 0 else Result.LATE if code is None else Result.FAILED
        if step.ours and code == NOTHING_HERE:
            result = Result.NOTHING_HERE
        outcomes.append(Outcome(step, result, clock() - started))
        if step.needed and result is not Result.OK:
            break
    return outcomes


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return the worst: 1 before 2 before 3."""
    results = {outcome.result for outcome in outcomes}
    if Result.FAILED in results:
        return 1
    if Result.NOTHING_HERE in results:
        return 2
    return 3 if results & {Result.LATE, Result.NOT_STARTED} else 0


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the last line."""
    good = sum(outcome.result is Result.OK for outcome in outcomes)
    said = "; ".join(
        f"{outcome.step.name}: {outcome.result.value}" for outcome in outcomes if outcome.result is not Result.OK
    )
    return f"gpu_check: {good} of {len(outcomes)} steps ok in {seconds:.0f} s{f'; {said}' if said else ''}"


def run_step(command: Sequence[str], seconds: float, cwd: Path | None = None) -> int | None:
    """Run a command in a process group of its own; end all of it after so many seconds, or when this is interrupted."""
    process = subprocess.Popen(command, cwd=cwd, start_new_session=True)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of a process's group: told first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
            if number == signal.SIGTERM and not _group_lives(process.pid):
                return


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@click.command()
@click.option("--no-gpu", is_flag=True, help="Check what needs no GPU.")
@click.option("--budget", "budget_s", type=float, default=BUDGET_S, show_default=True, help="Seconds for everything.")
@click.option("--checkout", type=click.Path(path_type=Path), default=Path(), hidden=True)
def main(no_gpu: bool, budget_s: float, checkout: Path) -> None:
    """Check and time the GPU path."""
    started = time.monotonic()
    checkout = checkout.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end, it ends what it started too
    try:
        outcomes = run_all(
            steps(checkout, not no_gpu),
            lambda command, seconds: run_step(command, seconds, checkout),
            budget_s,
            time.monotonic,
            lambda line: click.echo(f"\n{line}", err=True),
        )
    except KeyboardInterrupt:
        click.echo("\ngpu_check: interrupted")
        sys.exit(130)
    click.echo(summary(outcomes, time.monotonic() - started))
    sys.exit(exit_code(outcomes))


if __name__ == "__main__":
    main(prog_name="scripts/gpu_check")
