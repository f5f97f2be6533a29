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

from . import records, timing
from .case import Job, Row

#: A job that has not ended by then is given up, in seconds.
LIMIT_S = 3_600


class JobError(Exception):
    """A job that failed, with the end of what it said."""


def start(case: str, job: Job, limit_s: float = LIMIT_S) -> list[Row]:
    """Run a case's job in a new process and return its rows. Raises JobError."""
    environment = {**os.environ, **timing.thread_environment(int(job.get("cores", 1)))}
    environment["PYTHONPATH"] = os.pathsep.join([str(records.CHECKOUT), environment.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        answer = Path(folder) / "rows.json"
        done = subprocess.run(
            [sys.executable, "-m", "bench.job", case, str(answer)],
            input=json.dumps(job),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=limit_s,
            check=False,
        )
        if done.returncode != 0 or not answer.is_file():
            raise JobError(f"{case} {job}: exit code {done.returncode}\n{done.stderr[-2_000:]}")
        rows: list[Row] = json.loads(answer.read_text())
        return rows


def main() -> None:
    """Read the job, pin, run, write the rows."""
    case, answer = sys.argv[1], Path(sys.argv[2])
    job: dict[str, Any] = json.load(sys.stdin)
    cores = timing.pin(int(job.get("cores", 1))) if job.get("cores", 1) else []
    rows: list[Row] = import_module(f"bench.cases.{case}").run(job)
    for row in rows:
        row["pinned"] = cores
        row["load"] = os.getloadavg()[0]
    answer.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
