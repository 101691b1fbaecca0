"""Histograms of latencies: counted finely, so that percentiles can be told, and exported by fewer bounds."""

from bisect import bisect_left
from dataclasses import dataclass, field

# From the cost of one cheap request (0.1 ms) to a slow generation (60 s), about two a decade.
LATENCY_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)

# Sixteen a decade, no two further apart than a quarter, and each exported bound is one of them.
_STEPS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0)
FINE_BOUNDS_NS = (
    *(int(step * 10**decade) for decade in range(4, 10) for step in _STEPS),
    *(10**10, 3 * 10**10, 6 * 10**10),
)
"""Upper bounds from 10 us to 60 s."""

_EXPORTED = tuple(FINE_BOUNDS_NS.index(round(bound * 1e9)) for bound in LATENCY_BOUNDS_S)


@dataclass(slots=True)
class Histogram:
    """Counts by upper bound (`FINE_BOUNDS_NS`, the last is +Inf), not cumulative; `sum_ns` over all observations."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(FINE_BOUNDS_NS) + 1))
    sum_ns: int = 0

    def observe(self, ns: int, times: int = 1) -> None:
        self.counts[bisect_left(FINE_BOUNDS_NS, ns)] += times
        self.sum_ns += ns * times

    def merge(self, other: "Histogram") -> None:
        """Count what `other` has counted as well."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum_ns += other.sum_ns

    def exported(self) -> tuple[int, ...]:
        """Counts by `LATENCY_BOUNDS_S` and +Inf, not cumulative."""
        counts = tuple(self.counts)
        starts = (0, *(index + 1 for index in _EXPORTED))
        ends = (*starts[1:], len(counts))
        return tuple(sum(counts[start:end]) for start, end in zip(starts, ends, strict=True))
