"""What the benches share: one pinned core, spreads, what this machine is, and records as JSON.

Importing it puts tests/ on the path, so that a bench uses the very references and texts of the exactness tests.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
RESULTS = CHECKOUT / "bench" / "results"

sys.path.insert(0, str(CHECKOUT / "tests"))
if "TOKSEAM_SHARED" not in os.environ and (CHECKOUT / ".." / "shared" / "data").is_dir():
    os.environ["TOKSEAM_SHARED"] = str((CHECKOUT / ".." / "shared").resolve())


@dataclass(frozen=True)
class Spread:
    """A sample of durations, in microseconds."""

    count: int
    minimum: float
    p50: float
    p90: float
    p99: float
    p999: float
    maximum: float

    @classmethod
    def of_ns(cls, durations_ns: list[int]) -> Spread:
        ordered = sorted(durations_ns)
        return cls(
            len(ordered),
            ordered[0] / 1e3,
            quantile(ordered, 0.5) / 1e3,
            quantile(ordered, 0.9) / 1e3,
            quantile(ordered, 0.99) / 1e3,
            quantile(ordered, 0.999) / 1e3,
            ordered[-1] / 1e3,
        )

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def quantile(ordered: list[int], share: float) -> float:
    """Return the quantile of a sorted sample, between neighbours by proportion."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def pin_to_one_core() -> int | None:
    """Keep this process on the last core that it may use; None where that is not allowed."""
    try:
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError):
        return None
    return core


def machine() -> dict[str, Any]:
    """Say where a record was made: processor, load, Python, library versions and commit."""
    from importlib.metadata import version

    model = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    commit = subprocess.run(
        ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit,
        "processor": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("tokseam", "tokenizers", "tiktoken", "numpy")},
    }


def write_json(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
