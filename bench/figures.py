"""Figures for the records, as SVG and PNG by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .case import Row
from .peers import OURS

#: One colour a peer in every figure, ours the darkest.
COLOURS = {
    OURS: "#0b3d66",
    f"{OURS} list": "#2f6f9f",
    f"{OURS} whole turn": "#2f6f9f",
    f"{OURS} broker": "#5e9cc9",
    f"{OURS} broker list": "#9cc4e0",
    f"{OURS} broker whole turn": "#9cc4e0",
    "fastokens": "#e07a1f",
    "gigatoken": "#2a9d5c",
    "toktier": "#b3292e",
    "quicktok": "#7d5ba6",
    "kitoken": "#8c6d4f",
    "tokie": "#d16ba5",
    "wordchipper": "#7f7f7f",
    "tiktoken": "#b5a642",
    "tokenizers": "#3fb3c4",
}


def _plot() -> Any:
    # By name, so that types are checked where it is not installed.
    import_module("matplotlib").use("Agg")
    return import_module("matplotlib.pyplot")


def save(figure: Any, stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png; return both."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".svg"), stem.with_suffix(".png")]
    for path in paths:
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    _plot().close(figure)
    return paths


def throughput(stem: Path, title: str, rows: list[Row], columns: Sequence[str]) -> list[Path]:
    """Draw megabytes a second over the size, a panel for each kind of text and column."""
    kinds = list(dict.fromkeys(row["text"] for row in rows))
    if not kinds:
        return []
    figure, axes = _plot().subplots(
        len(kinds), len(columns), figsize=(4 * len(columns), 2.7 * len(kinds)), squeeze=False, sharex=True
    )
    for line, kind in zip(axes, kinds, strict=True):
        for axis, column in zip(line, columns, strict=True):
            mine = [row for row in rows if row["text"] == kind and row["column"] == column and not row.get("none")]
            lines_by_peer(axis, mine, "chars", lambda row, us: row["bytes"] / us)
            axis.set_title(f"{kind}, {column}", fontsize=9)
            axis.set_ylabel("MB/s", fontsize=8)
    legend(figure, axes)
    figure.suptitle(f"{title}: one core", y=1.0)
    figure.tight_layout()
    return save(figure, stem)


def growth(stem: Path, title: str, rows: list[Row]) -> list[Path]:
    """Draw nanoseconds a byte over the size, a panel for each kind of text: flat is linear."""

    def draw(axis: Any, kind: str) -> None:
        mine = [row for row in rows if row["text"] == kind]
        lines_by_peer(axis, mine, "chars", lambda row, us: 1e3 * us / row["bytes"])
        axis.set_title(kind, fontsize=9)
        axis.set_ylabel("ns a byte", fontsize=8)
        axis.set_xlabel("characters", fontsize=8)

    return panels(stem, title, list(dict.fromkeys(row["text"] for row in rows)), draw, across=4, size=(4, 3))


def by_context(stem: Path, title: str, rows: list[Row]) -> list[Path]:
    """Draw microseconds over the context, a panel for each size of change."""

    def draw(axis: Any, delta: int) -> None:
        lines_by_peer(axis, [row for row in rows if row["delta"] == delta], "chars", lambda _row, us: us)
        axis.set_title(f"{delta:,} characters", fontsize=9)
        axis.set_ylabel("microseconds", fontsize=8)
        axis.set_xlabel("context, characters", fontsize=8)

    return panels(stem, title, sorted({row["delta"] for row in rows}), draw, across=3, size=(4.4, 3.2))


def panels(
    stem: Path,
    title: str,
    subjects: list[Any],
    draw: Callable[[Any, Any], None],
    *,
    across: int,
    size: tuple[float, float],
) -> list[Path]:
    """Draw a panel of `size` inches for each subject, at most `across` in a row, under one legend; none for none."""
    if not subjects:
        return []
    across = min(across, len(subjects))
    down = -(-len(subjects) // across)
    figure, axes = _plot().subplots(
        down, across, figsize=(size[0] * across, size[1] * down), squeeze=False, sharey=True
    )
    for axis, subject in zip(axes.flat, subjects, strict=False):
        draw(axis, subject)
    for axis in list(axes.flat)[len(subjects) :]:
        axis.set_visible(False)
    legend(figure, axes)
    figure.suptitle(title, y=1.0)
    figure.tight_layout()
    return save(figure, stem)


def lines_by_peer(axis: Any, rows: list[Row], key: str, value: Any) -> None:
    """Draw one line a peer over `key`; a peer whose ids differ is dotted."""
    for name in dict.fromkeys(name for row in rows for name in row["peers"]):
        points = [
            (row[key], value(row, row["peers"][name]["us"]["p50"]))
            for row in rows
            if row["peers"].get(name, {}).get("us")
        ]
        if points:
            differs = any(row["peers"].get(name, {}).get("differs") for row in rows)
            axis.plot(
                *zip(*points, strict=True),
                marker="o",
                markersize=3,
                linewidth=2 if name.startswith(OURS) else 1,
                linestyle=":" if differs else "-",
                color=COLOURS.get(name, "#000000"),
                label=name + (" (ids differ)" if differs else ""),
            )
    axis.set_xscale("log")
    axis.set_yscale("log")
    # Between the decades, ticks without numbers: these run into one another.
    nothing = import_module("matplotlib.ticker").NullFormatter()
    axis.xaxis.set_minor_formatter(nothing)
    axis.yaxis.set_minor_formatter(nothing)
    axis.grid(True, alpha=0.3)
    axis.tick_params(labelsize=8)


def legend(figure: Any, axes: Any) -> None:
    """Put one legend for all panels beneath them."""
    found: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc="upper center", ncol=5, fontsize=8, bbox_to_anchor=(0.5, 0.0))


def load_bars(stem: Path, bars: list[tuple[str, str, float, float]]) -> list[Path]:
    """Draw milliseconds and mebibytes (PSS) to the first id: (library, tokenizer, milliseconds, mebibytes)."""
    if not bars:
        return []
    tokenizers = list(dict.fromkeys(tokenizer for _, tokenizer, _, _ in bars))
    libraries = list(dict.fromkeys(library for library, _, _, _ in bars))
    figure, axes = _plot().subplots(1, 2, figsize=(13, 4))
    for axis, column, unit in ((axes[0], 2, "ms"), (axes[1], 3, "MiB (PSS)")):
        for number, library in enumerate(libraries):
            heights = {bar[1]: bar[column] for bar in bars if bar[0] == library}
            at = [place + number / (len(libraries) + 1) for place, name in enumerate(tokenizers) if name in heights]
            colour = COLOURS.get(library.split(" ")[0], "#000000")
            axis.bar(
                at,
                [heights[name] for name in tokenizers if name in heights],
                width=1 / (len(libraries) + 1),
                color=colour,
                alpha=0.6 if library.endswith("cold") else 1,
                label=library,
            )
        axis.set_xticks([place + 0.4 for place in range(len(tokenizers))], tokenizers, fontsize=8)
        axis.set_ylabel(unit)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=6, fontsize=8, bbox_to_anchor=(0.5, 0.0))
    figure.suptitle("From tokenizer.json to the first id in a fresh process", y=1.0)
    figure.tight_layout()
    return save(figure, stem)


def memory_lines(stem: Path, rows: list[Row]) -> list[Path]:
    """Draw bytes a token of a growing session: the engine's count, and the growth of the process."""
    if not rows:
        return []
    figure, axis = _plot().subplots(figsize=(6, 4))
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        mine = [row for row in rows if row["tokenizer"] == tokenizer]
        tokens = [row["tokens"] for row in mine]
        (line,) = axis.plot(tokens, [row["session_bytes"] / row["tokens"] for row in mine], marker="o", label=tokenizer)
        axis.plot(
            tokens,
            [row["rss_more_bytes"] / row["tokens"] for row in mine],
            linestyle=":",
            color=line.get_color(),
            label=f"{tokenizer}, growth of RSS",
        )
    axis.set_xscale("log")
    axis.set_xlabel("tokens in the session")
    axis.set_ylabel("bytes a token")
    axis.set_ylim(bottom=0)
    axis.grid(True, alpha=0.3)
    axis.legend(fontsize=8)
    return save(figure, stem)
