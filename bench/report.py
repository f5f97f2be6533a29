"""Tables for the terminal. A peer whose ids differ is marked with ≠, one that took no part is named with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from .case import Row
from .peers import OURS


def contest_table(title: str, rows: list[Row], keys: Sequence[str], unit_us: float) -> Table:
    """Return a table with a column a peer: medians in units of `unit_us` microseconds, and ours beside the best."""
    names = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    shown = [name for name in names if any(row["peers"].get(name, {}).get("us") for row in rows)]
    table = Table(title=title)
    for key in keys:
        table.add_column(key, justify="right" if key in ("chars", "delta") else "left")
    for name in shown:
        table.add_column(name, justify="right")
    table.add_column("best peer / ours", justify="right")
    table.add_column("by CPU time", justify="right")
    for row in rows:
        cells = [f"{row[key]:,}" if isinstance(row[key], int) else str(row[key]) for key in keys]
        if row.get("none"):
            table.add_row(*cells, *["n/a"] * len(shown), str(row["none"]), "")
            continue
        cells += [_cell(row["peers"].get(name), unit_us) for name in shown]
        table.add_row(*cells, _ratio(row), _ratio(row, "cpu_p50"))
    notes = _notes(rows)
    if notes:
        table.caption = "\n".join(notes)
        table.caption_justify = "left"
    return table


def best_peer(row: Row, figure: str = "p50") -> tuple[str, float] | None:
    """Return the fastest peer whose ids are the reference's, and its median (wall, or `cpu_p50`) in microseconds."""
    timed = [
        (found["us"][figure], name)
        for name, found in row["peers"].items()
        if not name.startswith(OURS) and found.get("us") and not found.get("differs")
    ]
    if not timed:
        return None
    took, name = min(timed)
    return name, took


def our_ratio(row: Row, figure: str = "p50") -> float | None:
    """Return how many times faster ours is than the best peer (medians)."""
    ours, best = row["peers"].get(OURS), best_peer(row, figure)
    if not ours or not ours.get("us") or best is None:
        return None
    return best[1] / max(float(ours["us"][figure]), 1e-3)


def _ratio(row: Row, figure: str = "p50") -> str:
    ratio, best = our_ratio(row, figure), best_peer(row, figure)
    if ratio is None or best is None:
        return "n/a"
    colour = "green" if ratio >= 1 else "red"
    return f"[{colour}]{ratio:.2f}[/] {best[0]}"


def _cell(found: dict[str, Any] | None, unit_us: float) -> str:
    if not found or not found.get("us"):
        return "n/a"
    mark = " [red]≠[/]" if found.get("differs") else ""
    took = found["us"]["p50"] / unit_us
    return f"{took:,.3f}{mark}" if took < 10 else f"{took:,.1f}{mark}"


def _notes(rows: list[Row]) -> list[str]:
    notes: dict[str, None] = {}
    for row in rows:
        for name, found in row["peers"].items():
            if found.get("differs"):
                notes[f"≠ {name} on {row.get('text', row.get('kind', ''))}: {found['differs']}"] = None
            if found.get("missing"):
                notes[f"{name} takes no part: {found['missing']}"] = None
    return list(notes)[:24]
