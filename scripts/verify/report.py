"""How a campaign is shown: a progress bar while it runs, a summary and divergences at its end, and the JSON record."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .campaign import Campaign
from .checks import KINDS

#: Characters of an input that are printed; the JSON has all of them.
SHOWN_CHARS = 600


def versions() -> dict[str, str]:
    """Return the versions that an answer can depend on."""
    found = {"python": platform.python_version()}
    for name in ("tokseam", "tokenizers", "tiktoken"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def record(campaign: Campaign, **settings: Any) -> dict[str, Any]:
    """Return the campaign as it goes into the JSON file."""
    subject, outcome = campaign.rounds.subject, campaign.outcome
    seconds = max(outcome.seconds, 1e-9)
    done, listed = campaign.listed_done
    return {
        "tokenizer": subject.name,
        "sha256": subject.tokenizer.sha256,
        "status": subject.tokenizer.status,
        "reason": subject.tokenizer.reason,
        **settings,
        "versions": versions(),
        "machine": platform.machine(),
        "seconds": round(outcome.seconds, 1),
        "rounds": len(outcome.rounds_done),
        "listed_tasks": [done, listed],
        "checks": {kind: outcome.tally.done[kind] for kind in KINDS} | {"total": outcome.tally.total},
        "checks_per_second": round(outcome.tally.total / seconds),
        "coverage": campaign.coverage.counts(),
        "divergences": [asdict(divergence) for divergence in outcome.divergences],
        "faults": outcome.faults,
        "interrupted": outcome.interrupted,
    }


def print_summary(console: Console, campaign: Campaign) -> None:
    """Print what was checked and every divergence, escaped."""
    found = record(campaign)
    checks, coverage = found["checks"], found["coverage"]
    how = f"{found['status']} ({found['reason']})" if found["reason"] else found["status"]
    console.print(f"[bold]{found['tokenizer']}[/] {how}", highlight=False)
    if found["status"] == "reference":
        console.print("  the reference answers for it, so only the way to it and back was checked", style="yellow")
    console.print("  " + ", ".join(f"{checks[kind]:,} {kind}" for kind in KINDS), highlight=False)
    console.print(
        f"  {checks['total']:,} checks in {found['seconds']:,.1f} s: {found['checks_per_second']:,} a second; "
        f"listed tasks {found['listed_tasks'][0]:,} of {found['listed_tasks'][1]:,}; "
        + "; ".join(f"{name} {hit:,} of {total:,}" for name, (hit, total) in coverage.items()),
        highlight=False,
    )
    for divergence in campaign.outcome.divergences:
        console.print(f"[red]DIVERGENCE[/] in {divergence.check}, of {divergence.level}:", highlight=False)
        for name, value in divergence.input.items():
            text = ascii(value)
            shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(text):,} characters)"
            console.print(f"  {name}: {shown}", markup=False, highlight=False)
        console.print(f"  ours:      {divergence.ours!a}", markup=False, highlight=False)
        console.print(f"  reference: {divergence.reference!a}", markup=False, highlight=False)
    for fault in campaign.outcome.faults:
        console.print("[red]FAULT of the campaign itself:[/]")
        console.print(fault, markup=False, highlight=False)
    if not campaign.outcome.divergences and not campaign.outcome.faults:
        console.print("  [green]no divergence[/]")


@contextmanager
def progress(console: Console, budget_s: float) -> Iterator[Callable[[Campaign], None]]:
    """Show a bar of the time spent, with checks, checks per second and divergences; yields what to call with news."""
    columns = (
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[checks]} checks, {task.fields[rate]}/s, {task.fields[divergences]} divergences"),
    )
    # No thread of its own refreshes it: processes are forked while it is shown.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=budget_s, checks="0", rate="0", divergences="0")
        first: list[float] = []

        def watch(campaign: Campaign) -> None:
            outcome = campaign.outcome
            if not first:
                first.append(outcome.seconds)
            bar.update(
                task,
                completed=outcome.seconds - first[0],
                checks=f"{outcome.tally.total:,}",
                rate=f"{outcome.tally.total / max(outcome.seconds, 1e-9):,.0f}",
                divergences=str(len(outcome.divergences)),
                refresh=True,
            )

        yield watch
