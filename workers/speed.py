"""How fast a worker encodes, measured on its own work: what the broker compares paths by. Pure, without a clock."""

from __future__ import annotations

from typing import Final

#: Bytes of text below which the time of an answer says little about encoding.
TELLING_BYTES: Final = 16 * 1024
#: Weight of the newest measurement: half of a change is seen after two.
WEIGHT: Final = 0.3
#: Seconds after which a measurement says nothing any more, where nobody says otherwise.
STALE_S: Final = 300.0


class Speed:
    """A moving mean of bytes a second over encodes that were long enough to tell."""

    def __init__(self, stale_s: float = STALE_S) -> None:
        self._stale_s = stale_s
        self._bytes_per_s = 0.0
        self._measured_at = float("-inf")

    def note(self, size: int, started: float, ended: float) -> None:
        """An encode of `size` bytes ran between two moments of the caller's clock."""
        if size < TELLING_BYTES or ended <= started:
            return
        measured = size / (ended - started)
        fresh = started - self._measured_at > self._stale_s
        self._bytes_per_s = measured if fresh else self._bytes_per_s + WEIGHT * (measured - self._bytes_per_s)
        self._measured_at = ended

    def bytes_per_s(self, now: float) -> int:
        """Return the mean; 0 where there is none, or only an old one."""
        return 0 if now - self._measured_at > self._stale_s else max(1, int(self._bytes_per_s))
