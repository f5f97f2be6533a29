"""From a tokenizer.json to the first id in a fresh process: time and memory, cold and with our cache folder filled.

Cold: TOKSEAM_CACHE_DIR is an empty folder. Warm: the folder that such a run has filled. Peers keep nothing, and the
file itself is in the page cache for everybody. The time includes the library's import, which is also told by itself;
everybody's bytecode is at hand, as an installer leaves it. Then twelve tokenizers in four processes: the sum of PSS
beside the sum of RSS shows what the processes share.
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from .. import records
from ..case import Job, Options, Row
from ..peers import NAMES, OURS, QUICK

TITLE = "Time and memory from tokenizer.json to the first id; twelve tokenizers in four processes"

TOKENIZERS = ("qwen3", "llama3_1", "gptoss", "deepseek_v4", "gemma3")
#: For the many: those of the catalogue that are files, then these of ../shared/data.
MANY = 12
PROCESSES = 4
MORE = ("glm4", "kimi_k2", "mistral_tekken_240911", "falcon", "command_r", "starcoder2", "refact", "p50k_base")
REPEATS = 5
LIMIT_S = 300
#: A state that has taken this long already is not repeated again.
ENOUGH_S = 20.0


def jobs(options: Options) -> list[Job]:
    quick = options.quick
    repeats = 1 if quick else REPEATS
    names = list(options.peers or (QUICK if quick else NAMES))
    names = list(dict.fromkeys([OURS, *(name for name in names if name != "wordchipper")]))
    made: list[Job] = [
        {"tokenizer": tokenizer, "many": False, "peers": [name], "cores": 1, "repeats": repeats}
        for tokenizer in (options.tokenizers or (("qwen3",) if quick else TOKENIZERS))
        for name in names
    ]
    several = [] if quick else [name for name in names if name in (OURS, "fastokens", "gigatoken", "tokenizers")]
    # Nothing is pinned: four processes load side by side.
    return made + [{"tokenizer": f"{MANY} of them", "many": True, "peers": [name], "cores": 0} for name in several]


def run(job: Job) -> list[Row]:
    name = job["peers"][0]
    if name == OURS:
        _compile_bytecode()
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        if job["many"]:
            return _many(job, name, Path(folder))
        from .. import subjects

        path = subjects.load(job["tokenizer"]).json_path()
        states = ("cold", "warm") if name == OURS else ("-",)
        rows: list[Row] = []
        for state in states:
            answers: list[dict[str, Any]] = []
            began = time.monotonic()
            for number in range(job["repeats"]):
                if number and time.monotonic() - began > ENOUGH_S:
                    break
                cache = Path(folder) / ("warm" if state == "warm" else f"cold-{number}")
                if state == "warm" and not number:
                    _together(name, [path], cache, 1)
                answers.append(_together(name, [path], cache, 1)[0])
            rows.append(
                {"tokenizer": job["tokenizer"], "processes": 1, "peer": name, "cache": state, **_middle(answers)}
            )
        return rows


def _compile_bytecode() -> None:
    """Do for this checkout what an installer does: otherwise the first import compiles, and with
    PYTHONDONTWRITEBYTECODE every one.
    """
    for part in ("broker", "client", "kernels"):
        spec = importlib.util.find_spec(f"tokseam.{part}")
        for folder in (spec and spec.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=1)


def _many(job: Job, name: str, folder: Path) -> list[Row]:
    paths = many_tokenizers(folder)
    if name == OURS:
        _together(name, paths, folder / "cache", 1)
    answers = _together(name, paths, folder / "cache", PROCESSES)
    row: Row = {"tokenizer": f"{len(paths)} of them", "processes": PROCESSES, "peer": name}
    row["names"] = [path.name.split(".json")[0] for path in paths]
    row["cache"] = "warm" if name == OURS else "-"
    broken = next((one for one in answers if "missing" in one), None)
    if broken:
        return [{**row, **broken}]
    row["sum"] = {key: sum(one["together"][key] for one in answers) for key in ("pss", "rss", "private")}
    return [{**row, **_middle(answers)}]


def many_tokenizers(folder: Path) -> list[Path]:
    """Return up to `MANY` tokenizer.json files of this machine; packed ones are unpacked into `folder`."""
    from tokseam.scripts import tokenizer_catalogue as catalogue

    found = [catalogue.find(name) for name, entry in catalogue.CATALOGUE.items() if entry.kind == "tokenizer.json"]
    paths = [path for path in found if path is not None]
    shared = catalogue.shared_folder()
    for name in MORE if shared else ():
        packed = (shared or Path()) / "data" / "tokenizers" / f"{name}.json.xz"
        if len(paths) < MANY and packed.is_file():
            path = folder / f"{name}.json"
            path.write_bytes(lzma.decompress(packed.read_bytes()))
            paths.append(path)
    return paths[:MANY]


def _together(name: str, paths: list[Path], cache: Path, processes: int) -> list[dict[str, Any]]:
    """Load in that many new processes at a time; look at their memory once more when all have loaded."""
    cache.mkdir(exist_ok=True)
    environment = {**os.environ, "TOKSEAM_CACHE_DIR": str(cache), "PYTHONPATH": str(records.CHECKOUT)}
    command = [sys.executable, "-m", "bench.load_one", name, *map(str, paths)]
    running = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        for _ in range(processes)
    ]
    answers: list[dict[str, Any]] = []
    try:
        for one in running:
            assert one.stdout is not None
            line = one.stdout.readline()
            answers.append(json.loads(line) if line else {"missing": f"the process ended: {one.wait(LIMIT_S)}"})
        for one, answer in zip(running, answers, strict=True):
            if "missing" not in answer:
                answer["together"] = json.loads(one.communicate(timeout=LIMIT_S)[0])
    finally:
        for one in running:
            one.kill()
            one.wait()
    return answers


def _middle(answers: list[dict[str, Any]]) -> Row:
    broken = next((one for one in answers if "missing" in one), None)
    if broken:
        return broken
    seconds = sorted(one["seconds"] for one in answers)
    return {
        "runs": len(answers),
        "seconds": median(seconds),
        "seconds_spread": [seconds[0], seconds[-1]],
        "import_seconds": median(one["import_seconds"] for one in answers),
        "load_seconds": median(one["load_seconds"] for one in answers),
        "cpu_seconds": median(one["cpu_seconds"] for one in answers),
        "memory": {key: median(one["memory"][key] for one in answers) for key in answers[0]["memory"]},
        "version": answers[0]["version"],
    }


def tables(rows: list[Row]) -> list[Table]:
    one = Table(title="From tokenizer.json to the first id, import included (medians)")
    columns = ("ms", "spread", "import", "then to the first id", "CPU ms", "PSS MiB", "RSS MiB", "peak RSS MiB")
    for heading in ("tokenizer", "library", "cache", *columns):
        one.add_column(heading, justify="left" if heading in ("tokenizer", "library", "cache") else "right")
    many = Table(title="Twelve tokenizers, four processes: MiB of all four (more than before loading: see the record)")
    for heading in ("library", "sum of PSS", "sum of RSS", "sum of private", "a process to its first ids, ms"):
        many.add_column(heading, justify="right")
    for row in rows:
        cells = [row["tokenizer"], row["peer"], row["cache"]]
        if "missing" in row:
            (many if row["processes"] > 1 else one).add_row(
                *cells[: 1 if row["processes"] > 1 else 3], row["missing"][:60]
            )
        elif row["processes"] == 1:
            low, high = row["seconds_spread"]
            times = [
                f"{row['seconds'] * 1e3:,.0f}",
                f"{low * 1e3:,.0f}-{high * 1e3:,.0f}",
                f"{row['import_seconds'] * 1e3:,.0f}",
                f"{(row['seconds'] - row['import_seconds']) * 1e3:,.0f}",
                f"{row['cpu_seconds'] * 1e3:,.0f}",
            ]
            one.add_row(*cells, *times, *[f"{row['memory'][key]:,.0f}" for key in ("pss", "rss", "peak_rss")])
        else:
            sums = [f"{row['sum'][key]:,.0f}" for key in ("pss", "rss", "private")]
            many.add_row(row["peer"], *sums, f"{row['seconds'] * 1e3:,.0f}")
    return [table for table in (one, many) if table.row_count]


def figures(rows: list[Row], folder: Path) -> list[Path]:
    from .. import figures as drawing

    mine = [row for row in rows if row["processes"] == 1 and "missing" not in row]
    bars = [
        (
            f"{row['peer']} {row['cache']}".removesuffix(" -"),
            row["tokenizer"],
            row["seconds"] * 1e3,
            row["memory"]["pss"],
        )
        for row in mine
    ]
    return drawing.load_bars(folder / "load", bars)
