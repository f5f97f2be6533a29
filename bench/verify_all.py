#!/usr/bin/env python3
"""Run `tokseam verify` on every tokenizer of a folder, one after the other, and keep one record of all.

    python -m bench verify-all [--folder DIR] [--budget 20m] [--only NAME ...] [--seed N] [--json FILE] [--append]

The folder holds tokenizer.json files, packed with xz or not. Checks and status of each tokenizer go into
the record, and their sums over the native ones. The exit status is 0 only when no campaign found a divergence.
Limits: what a campaign does and counts is documented in scripts/verify/.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tokseam.scripts.tokenizer_catalogue import name_shared_folder, shared_folder

ROOT = Path(__file__).resolve().parents[1]
name_shared_folder(ROOT)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Give a command line --folder, of tokenizer.json files; to be named where there is no shared folder."""
    shared = shared_folder()
    found = shared and shared / "data" / "tokenizers"
    parser.add_argument("--folder", type=Path, default=found, required=found is None)


def default_corpus() -> Path | None:
    shared = shared_folder()
    found = shared and shared / "data" / "multi"
    return found if found is not None and found.is_dir() else None


def unpacked(path: Path, folder: Path) -> Path:
    """Copy a tokenizer.json into `folder`, without its xz."""
    target = folder / path.name.removesuffix(".xz")
    if path.suffix == ".xz":
        with lzma.open(path) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file)
    else:
        shutil.copy(path, target)
    return target


def campaign(path: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one campaign and return its record."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tokseam.scripts.cli", "verify", "--tokenizer", str(unpacked(path, folder))]
    command += ["--budget", options.budget, "--seed", str(options.seed), "--json", str(report)]
    if options.corpus is not None:
        command += ["--corpus", str(options.corpus)]
    status = subprocess.run(command, check=False).returncode
    if not report.exists():
        return {"tokenizer": path.name, "status": "failed", "exit_status": status, "checks": {}, "divergences": []}
    found: dict[str, Any] = json.loads(report.read_text())
    return found | {"exit_status": status}


def summary(records: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return the record of one run over the folder: sums over the native tokenizers, and each one's own."""
    native = [record for record in records if record["status"] == "native"]
    kinds = list(native[0]["checks"]) if native else []
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "commit": options.commit or commit.stdout.strip(),
        "budget_each": options.budget,
        "seed": options.seed,
        "tokenizers": len(records),
        "native": len(native),
        "checks_of_native": {kind: sum(record["checks"][kind] for record in native) for kind in kinds},
        "divergences": sum(len(record["divergences"]) for record in records),
        "campaigns": records,
    }


def total(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of several runs: sums over all of them, and each."""
    kinds = runs[0]["checks_of_native"]
    native = {record["tokenizer"] for run in runs for record in run["campaigns"] if record["status"] == "native"}
    return {
        "native_tokenizers": len(native),
        "checks_of_native": {kind: sum(run["checks_of_native"].get(kind, 0) for run in runs) for kind in kinds},
        "divergences": sum(run["divergences"] for run in runs),
        "runs": runs,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--corpus", type=Path, default=default_corpus())
    parser.add_argument("--budget", default="20m", help="of each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=None, help="names of tokenizers, without .json")
    parser.add_argument("--json", type=Path, default=ROOT / "bench" / "results" / "verify.json")
    parser.add_argument("--append", action="store_true", help="keep the runs that the record has already")
    parser.add_argument("--commit", default="", help="of the installed package, where it is not this checkout's")
    options = parser.parse_args()
    before = json.loads(options.json.read_text())["runs"] if options.append and options.json.exists() else []
    paths = sorted([*options.folder.glob("*.json"), *options.folder.glob("*.json.xz")])
    if options.only is not None:
        paths = [path for path in paths if path.name.split(".json")[0] in options.only]
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            records.append(campaign(path, Path(folder), options))
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(total([*before, summary(records, options)]), indent=1) + "\n")
            if records[-1]["exit_status"] == 130:
                return 130
    return int(any(record["exit_status"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
