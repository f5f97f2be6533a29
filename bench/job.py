"""One job in a process of its own, pinned and with its thread pools bounded: `python -m bench.job` (job on stdin).

The environment is set by whoever starts it (`start`), before any library is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from . import marking, records, timing
from .case import Job, Row

#: A job that has not ended by then is given up, in seconds.
LIMIT_S = 900


class JobError(Exception):
    """A job that failed, with the end of what it said."""


def start(case: str, job: Job, limit_s: float = LIMIT_S) -> list[Row]:
    """Run a case's job in a new process and return its rows. Raises JobError.

    A peer that takes the process down, or does not return, is left out of a second start.
    """
    without: dict[str, str] = {}
    while True:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            answer, mark = Path(folder) / "rows.json", Path(folder) / "mark"
            given = {**job, "without": without} if without else job
            why = _run(case, given, answer, mark, limit_s)
            if not why:
                rows: list[Row] = json.loads(answer.read_text())
                return rows
            guilty = mark.read_text() if mark.is_file() else ""
        if guilty not in job.get("peers", ()) or guilty in without:
            raise JobError(f"{case} {job}: {why}")
        without[guilty] = why.splitlines()[0]


def _run(case: str, job: Job, answer: Path, mark: Path, limit_s: float) -> str:
    """Run a job in a new process; return '' or what went wrong."""
    environment = {**os.environ, **timing.thread_environment(int(job.get("cores", 1)))}
    environment["PYTHONPATH"] = os.pathsep.join([str(records.CHECKOUT), environment.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.job", case, str(answer), str(mark)],
            input=json.dumps(job),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the job did not end within {limit_s:.0f} s"
    if done.returncode == 0 and answer.is_file():
        return ""
    return f"{marking.in_words(done.returncode)}\n{done.stderr[-2_000:]}"


def main() -> None:
    """Read the job, pin, run, write the rows."""
    case, answer = sys.argv[1], Path(sys.argv[2])
    marking.to(Path(sys.argv[3]))
    job: dict[str, Any] = json.load(sys.stdin)
    cores = timing.pin(int(job.get("cores", 1))) if job.get("cores", 1) else []
    rows: list[Row] = import_module(f"bench.cases.{case}").run(job)
    for row in rows:
        row["pinned"] = cores
        row["load"] = os.getloadavg()[0]
    answer.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
