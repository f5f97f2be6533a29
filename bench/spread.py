"""A sample of durations, and its quantiles."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Spread:
    """A sample of durations, in microseconds."""

    count: int
    minimum: float
    p50: float
    p90: float
    p99: float
    p999: float
    maximum: float

    @classmethod
    def of_ns(cls, durations_ns: list[int]) -> Spread:
        ordered = sorted(durations_ns)
        return cls(
            len(ordered),
            ordered[0] / 1e3,
            quantile(ordered, 0.5) / 1e3,
            quantile(ordered, 0.9) / 1e3,
            quantile(ordered, 0.99) / 1e3,
            quantile(ordered, 0.999) / 1e3,
            ordered[-1] / 1e3,
        )

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def quantile(ordered: list[int], share: float) -> float:
    """Return the quantile of a sorted sample, between neighbours by proportion."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
