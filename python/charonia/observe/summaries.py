"""Quantiles of latencies over the last minute, for `--metrics-config=summary_latencies=true`."""

from collections import Counter
from collections.abc import Sequence
from math import ceil, nan

from charonia.core.request import InferRequest
from charonia.observe.stamps import Stamps

# As Triton's: an observation counts for 48 to 60 seconds.
SLICE_NS = 12_000_000_000
SLICES = 5

# Bits of a number that are kept. With 7, a bin reaches at most 1/64 further than it begins, so its middle is within
# 1 % of everything in it, and a time slice has at most 64 bins for each doubling, about 3,000 in all.
_KEPT_BITS = 7


class SlidingQuantiles:
    """Quantiles of whole numbers that were seen in the last 48 to 60 seconds, each within 1 % of the exact one.

    Not locked. Memory is bounded: numbers are counted in bins, a set of bins for each slice of time.

    Attributes:
        count, total: number and sum of all observations ever.
    """

    __slots__ = ("_slices", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self._slices: dict[int, dict[int, int]] = {}

    def add(self, value: int, times: int, now_ns: int) -> None:
        """Observe `value` so many times; values below 0 count as 0."""
        value = max(value, 0)
        self.count += times
        self.total += value * times
        number = now_ns // SLICE_NS
        bins = self._slices.get(number)
        if bins is None:
            self._drop_before(number)
            bins = self._slices[number] = {}
        key = _bin(value)
        bins[key] = bins.get(key, 0) + times

    def read(self, quantiles: Sequence[float], now_ns: int) -> list[float]:
        """The values at `quantiles` (each from 0 to 1), in that order; NaN when nothing was seen lately."""
        self._drop_before(now_ns // SLICE_NS)
        merged: Counter[int] = Counter()
        for bins in self._slices.values():
            merged.update(bins)
        return [_value_at(merged, quantile) for quantile in quantiles]

    def _drop_before(self, number: int) -> None:
        for old in [each for each in self._slices if each <= number - SLICES]:
            del self._slices[old]


class LatencySummaries:
    """The summaries of one model version, in microseconds. Used under the lock of its statistics."""

    __slots__ = ("cache_hit", "cache_miss", "compute_infer", "compute_input", "compute_output", "queue", "request")

    def __init__(self) -> None:
        self.request = SlidingQuantiles()
        self.queue = SlidingQuantiles()
        self.compute_input = SlidingQuantiles()
        self.compute_infer = SlidingQuantiles()
        self.compute_output = SlidingQuantiles()
        self.cache_hit = SlidingQuantiles()
        self.cache_miss = SlidingQuantiles()

    @property
    def all(self) -> tuple[SlidingQuantiles, ...]:
        """In the order of `model_metrics.SUMMARIES`."""
        return self.request, self.queue, self.compute_input, self.compute_infer, self.compute_output

    @property
    def of_cache(self) -> tuple[SlidingQuantiles, ...]:
        """In the order of `model_metrics.CACHE_SUMMARIES`."""
        return self.cache_hit, self.cache_miss

    def record_hit(self, lookup_ns: int, now_ns: int) -> None:
        """The response cache answered a request."""
        self.queue.add(0, 1, now_ns)
        self.cache_hit.add(lookup_ns // 1000, 1, now_ns)

    def record_miss(self, duration_ns: int, now_ns: int) -> None:
        """The response cache had nothing for a request, and got its response."""
        self.cache_miss.add(duration_ns // 1000, 1, now_ns)

    def record(self, stamps: Stamps, requests: Sequence[InferRequest]) -> None:
        """These requests of one batch succeeded."""
        count, now_ns = len(requests), stamps.end_ns
        for request in requests:
            self.request.add((now_ns - request.arrival_ns) // 1000, 1, now_ns)
            self.queue.add((stamps.compute_start_ns - request.queue_start_ns) // 1000, 1, now_ns)
        self.compute_input.add(stamps.input_ns // 1000, count, now_ns)
        self.compute_infer.add(stamps.infer_ns // 1000, count, now_ns)
        self.compute_output.add(stamps.output_ns // 1000, count, now_ns)


def _bin(value: int) -> int:
    """Bins are numbered in the order of their values: the shift first, then the bits that are kept."""
    shift = max(value.bit_length() - _KEPT_BITS, 0)
    return (shift << _KEPT_BITS) | (value >> shift)


def _middle(key: int) -> int:
    shift = key >> _KEPT_BITS
    return ((key & ((1 << _KEPT_BITS) - 1)) << shift) + ((1 << shift) - 1) // 2


def _value_at(bins: Counter[int], quantile: float) -> float:
    wanted = max(ceil(quantile * bins.total()), 1)
    seen = 0
    for key in sorted(bins):
        seen += bins[key]
        if seen >= wanted:
            return _middle(key)
    return nan
