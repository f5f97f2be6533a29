"""Who is at work: a job writes the name before each call, so that the one who takes the process down is known.

Some libraries end the process on some texts, or don't return: a call that is longer than `CALL_LIMIT_S` ends the
process by SIGALRM. The parent reads the mark and starts the job again without that one.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The longest that one call of a peer may take, in seconds.
CALL_LIMIT_S = 60.0

_file: Path | None = None


def to(path: Path) -> None:
    """Write marks there from now on, and end this process when a call is too long."""
    global _file
    _file = path


@contextmanager
def at_work(name: str) -> Iterator[None]:
    """Mark `name` as being at work for a `with` block that calls it."""
    if _file is None:
        yield
        return
    _file.write_text(name)
    signal.setitimer(signal.ITIMER_REAL, CALL_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def in_words(exit_code: int) -> str:
    """Say what an exit code tells."""
    if exit_code == -signal.SIGALRM:
        return f"no answer within {CALL_LIMIT_S:.0f} s"
    return f"it took the process down: exit code {exit_code}"
