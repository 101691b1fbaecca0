import math
import random

import pytest

from charonia.observe.stamps import Stamps
from charonia.observe.summaries import SLICE_NS, SLICES, LatencySummaries, SlidingQuantiles
from charonia.testing.requests import KeptReplies, make_request

QUANTILES = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)


def exact(values, quantile):
    return sorted(values)[max(math.ceil(quantile * len(values)), 1) - 1]


@pytest.mark.parametrize("draw", [lambda r: r.randrange(40), lambda r: int(r.lognormvariate(8, 2)), lambda r: 10**12])
def test_quantiles_are_within_one_percent(draw):
    source, sketch = random.Random(7), SlidingQuantiles()
    values = [draw(source) for _ in range(5000)]
    for value in values:
        sketch.add(value, 1, 0)
    for quantile, found in zip(QUANTILES, sketch.read(QUANTILES, 0), strict=True):
        assert found == pytest.approx(exact(values, quantile), rel=0.01)
    assert (sketch.count, sketch.total) == (5000, sum(values))


def test_observations_count_for_a_minute():
    sketch = SlidingQuantiles()
    for number in range(SLICES):
        sketch.add(number, 1, number * SLICE_NS)
    assert sketch.read((0, 1), SLICES * SLICE_NS - 1) == [0, 4]
    assert sketch.read((0, 1), SLICES * SLICE_NS) == [1, 4]
    assert sketch.read((0, 1), (2 * SLICES - 2) * SLICE_NS) == [4, 4]
    assert all(map(math.isnan, sketch.read((0, 1), (2 * SLICES - 1) * SLICE_NS)))
    assert (sketch.count, sketch.total) == (5, 10)


def test_an_observation_may_count_several_times():
    sketch = SlidingQuantiles()
    sketch.add(1, 3, 0)
    sketch.add(100, 1, 0)
    assert sketch.read((0.75, 0.76), 0) == [1, 100]
    assert (sketch.count, sketch.total) == (4, 103)


def test_memory_is_bounded():
    source, sketch = random.Random(7), SlidingQuantiles()
    for number in range(100):
        for _ in range(1000):
            sketch.add(source.getrandbits(source.randrange(1, 50)), 1, number * SLICE_NS)
    assert len(sketch._slices) <= SLICES
    assert all(len(bins) < 3100 for bins in sketch._slices.values())


def test_clocks_that_disagree_a_little_give_no_negative_latency():
    sketch = SlidingQuantiles()
    sketch.add(-5, 1, 0)
    assert sketch.read((0.5,), 0) == [0]


def test_a_batch_is_recorded_by_request_and_part():
    summaries = LatencySummaries()
    requests = [make_request(KeptReplies(), arrival_ns=arrival) for arrival in (0, 1_000_000)]
    for request in requests:
        request.queue_start_ns = request.arrival_ns + 500_000
    summaries.record(Stamps(2_000_000, 2_010_000, 2_050_000, 2_060_000), requests)
    assert [each.count for each in summaries.all] == [2] * 5
    assert [each.total for each in summaries.all] == [2060 + 1060, 1500 + 500, 20, 80, 20]
