"""What the benches share: what this machine is, and records as JSON.

Importing it puts tests/ on the path, so that a bench uses the very references and texts of the exactness tests.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tokseam.scripts.tokenizer_catalogue import name_shared_folder

CHECKOUT = Path(__file__).parents[1]
RESULTS = CHECKOUT / "bench" / "results"

sys.path.insert(0, str(CHECKOUT / "tests"))
name_shared_folder(CHECKOUT)


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
