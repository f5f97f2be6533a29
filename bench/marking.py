"""Who is at work: a job writes the name before each call, so that the one who takes the process down is known.

Some libraries end the process on some texts, or never return; the parent reads the mark and starts the job again
without that one.
"""

from __future__ import annotations

from pathlib import Path

_file: Path | None = None


def to(path: Path) -> None:
    """Write marks there from now on."""
    global _file
    _file = path


def now(name: str) -> None:
    """Mark `name` as being at work."""
    if _file is not None:
        _file.write_text(name)
