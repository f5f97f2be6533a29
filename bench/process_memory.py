"""How much memory a process holds, from /proc: its own share of what it maps (PSS), all of it (RSS), the peak."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """Mebibytes. PSS counts a page that n processes map as a page's n-th part in each."""

    pss: float
    rss: float
    #: Pages that no other process maps, or that this one has written.
    private: float
    peak_rss: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    def minus(self, other: Memory) -> Memory:
        return Memory(self.pss - other.pss, self.rss - other.rss, self.private - other.private, self.peak_rss)


def now(process: str = "self") -> Memory:
    """Read /proc. Raises OSError where there is none."""
    fields: dict[str, int] = {}
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        name, amount = line.split(":")
        fields[name] = int(amount.split()[0])
    status = Path(f"/proc/{process}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    private = fields["Private_Clean"] + fields["Private_Dirty"]
    return Memory(fields["Pss"] / 1024, fields["Rss"] / 1024, private / 1024, peak / 1024)
