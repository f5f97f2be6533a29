"""`python -m bench CASE`: one command for every bench."""

from __future__ import annotations

import os
import runpy
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import records

#: Cases of this harness, in the order of the README.
CASES = ("fresh", "hostile", "append", "edit", "load", "memory")
#: Benches with a command line of their own.
OWN = {
    "sweep": "sweep",
    "shadow": "shadow",
    "verify-all": "verify_all",
    "roundtrip": "roundtrip",
    "fresh-path": "fresh_path",
    "gpu": "gpu",
}


def run_case(name: str, options: Any, json_path: Path | None, folder: Path | None, console: Console) -> bool:
    """Run every job of a case, show its tables, write its record and figures; return whether every job ended well."""
    from . import job as jobs

    case = import_module(f"bench.cases.{name}")
    todo = case.jobs(options)
    told = [case.estimate_s(job) for job in todo] if hasattr(case, "estimate_s") else []
    seconds = [one for one in told if one is not None]
    estimate = f", about {sum(seconds) / 60:.1f} minutes on an idle machine" if seconds else ""
    console.print(f"[bold]{name}[/]: {case.TITLE}; {len(todo)} jobs{estimate}, load {os.getloadavg()[0]:.2f}")
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    started = time.monotonic()
    bars = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bars, console=console, transient=True) as progress:
        task = progress.add_task(name, total=len(todo))
        for job in todo:
            words = " ".join(str(value) for value in job.values() if isinstance(value, (str, int)))
            progress.update(task, description=f"{name} {words}"[:70])
            try:
                rows += jobs.start(name, job)
            except jobs.JobError as error:
                failures.append(str(error))
                progress.console.print(f"failed: {error}", style="red", markup=False)
            if json_path is not None:
                record = {"bench": name, "title": case.TITLE, "machine": records.machine(), "quick": options.quick}
                record |= {"seconds": round(time.monotonic() - started, 1), "failures": failures, "rows": rows}
                records.write_json(json_path, record)
            progress.advance(task)
    for table in case.tables(rows):
        console.print(table)
    if json_path is not None:
        console.print(f"record: {json_path}")
    if folder is not None:
        for path in case.figures(rows, folder):
            console.print(f"figure: {path}")
    return not failures


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("case", type=click.Choice(CASES))
@click.option("--tokenizer", "tokenizers", multiple=True, metavar="NAME|PATH", help="May be repeated.")
@click.option("--peers", help="Names, comma-separated; ours always takes part.")
@click.option("--text", "texts", multiple=True, help="One kind of text, or of edit, only (may be repeated).")
@click.option("--size", "sizes", multiple=True, type=int, help="One size only, in characters (may be repeated).")
@click.option("--cores", multiple=True, type=click.IntRange(1, 2), help="fresh: one core or two only.")
@click.option("--quick", is_flag=True, help="Under a minute: few sizes, few peers.")
@click.option("--long", "long", is_flag=True, help="append: 100,000 appends of 1,400 characters, for P99.9; no peers.")
@click.option("--no-broker", is_flag=True, help="append --long: the embedded engine only.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the record here.")
@click.option("--figures", "folder", type=click.Path(file_okay=False, path_type=Path), help="Draw SVG and PNG here.")
def main(
    case: str,
    tokenizers: tuple[str, ...],
    peers: str | None,
    texts: tuple[str, ...],
    sizes: tuple[int, ...],
    cores: tuple[int, ...],
    quick: bool,
    long: bool,
    no_broker: bool,
    json_path: Path | None,
    folder: Path | None,
) -> None:
    """Measure one CASE. Exit code 1 when a job failed.

    Other benches have options of their own: python -m bench sweep|shadow|verify-all|roundtrip|fresh-path|gpu --help.
    """
    from .case import Options
    from .peers import NAMES, PIECES

    named = tuple(peers.split(",")) if peers else ()
    unknown = [name for name in named if name not in (*NAMES, PIECES)]
    if unknown:
        raise click.UsageError(f"unknown peer {', '.join(unknown)}; there are {', '.join(NAMES)}")
    options = Options(tokenizers, named, quick, long, not no_broker, texts, sizes, cores)
    width = None if sys.stdout.isatty() else 180
    if not run_case(case, options, json_path, folder, Console(width=width)):
        sys.exit(1)


def start() -> None:
    """Hand the command line to the bench that it names."""
    name = OWN.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if name is None:
        main(prog_name="python -m bench")
        return
    del sys.argv[1]
    runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    start()
