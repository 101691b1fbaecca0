"""Latencies counted finely and exported by fewer bounds."""

from bisect import bisect_left
from itertools import pairwise

import pytest

from charonia.observe.latency import FINE_BOUNDS_NS, LATENCY_BOUNDS_S, Histogram


def test_bounds_ascend_and_are_never_far_apart():
    pairs = list(pairwise(FINE_BOUNDS_NS))
    assert all(low < high for low, high in pairs)
    assert all(high <= low * 1.25 for low, high in pairs if high <= 10**10)


def test_every_exported_bound_is_counted():
    assert {round(bound * 1e9) for bound in LATENCY_BOUNDS_S} <= set(FINE_BOUNDS_NS)


@pytest.mark.parametrize("ns", [0, 1, 99_999, 100_000, 100_001, 2_500_000, 2_500_001, 59_999_999_999, 60_000_000_001])
def test_what_is_exported_is_what_would_have_been_counted(ns):
    histogram = Histogram()
    histogram.observe(ns, 3)
    wanted = [0] * (len(LATENCY_BOUNDS_S) + 1)
    wanted[bisect_left(LATENCY_BOUNDS_S, ns / 1e9)] = 3
    assert list(histogram.exported()) == wanted
    assert histogram.sum_ns == 3 * ns
