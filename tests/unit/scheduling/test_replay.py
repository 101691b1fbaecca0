"""What a replay says of a delay is what `DynamicBatching` makes of it."""

import random

import pytest

from charonia.scheduling.ceiling import Ceiling
from charonia.scheduling.execution_times import ExecutionTimes
from charonia.scheduling.replay import Executed, Setting, quantile_of, replay
from tests.unit.scheduling.latency_world import MS, LatencyWorld, S, bursts, mean_rows, percentile_ms, steady


def times_of(base_ms, row_ms):
    times = ExecutionTimes()
    times.base_ns, times.row_ns = base_ms * MS, row_ms * MS
    return times


def load(name):
    return {
        "steady": lambda: steady(400, 4),
        "too much": lambda: steady(4000, 1),
        "bursts": lambda: bursts(30, 50, 3, spread_ms=4),
        "rows": lambda: steady(300, 4, rows=lambda rng: rng.choice([1, 2, 5])),
        "shapes": lambda: steady(400, 4, key=lambda rng: rng.choice([1, 1, 2])),
    }[name]()


@pytest.mark.parametrize("name", ["steady", "too much", "bursts", "rows", "shapes"])
@pytest.mark.parametrize("delay_ms", [0, 3, 15])
@pytest.mark.parametrize("instances", [1, 3])
def test_a_replay_is_what_was(name, delay_ms, instances):
    world = LatencyWorld(
        lambda rows, now_s: (3 + 0.1 * rows) * MS, delay_us=delay_ms * 1000, max_rows=16, instances=instances
    )
    world.takes = lambda rows, now_s: int((3 + 0.1 * rows) * MS)
    done = world.run(load(name))
    requests = [Executed(S + when, S + when, 0, rows, key) for when, rows, key in load(name)]
    said = replay(requests, delay_ms * MS, 0.95, Setting(instances, times_of(3, 0.1), 16, frozenset((16,))))
    assert said.latency_ns / MS == pytest.approx(percentile_ms(done, 0.95), rel=0.02, abs=0.05)
    batches = sum(1 / each.rows for each in done) if name != "rows" else None
    if batches is not None:
        assert said.mean_rows == pytest.approx(mean_rows(done), rel=0.02)


@pytest.mark.parametrize("delay_ms", [0, 3, 15])
def test_preferred_sizes_are_released_at_once(delay_ms):
    world = LatencyWorld(lambda rows, now_s: 2 * MS, delay_us=delay_ms * 1000, max_rows=16, preferred=(4, 8))
    done = world.run(steady(1000, 4))
    requests = [Executed(S + when, S + when, 0, 1, 1) for when, _, _ in steady(1000, 4)]
    said = replay(requests, delay_ms * MS, 0.95, Setting(1, times_of(2, 0), 16, frozenset((4, 8))))
    assert said.mean_rows == pytest.approx(mean_rows(done), rel=0.1)


def test_quantiles():
    assert [quantile_of([4, 1, 3, 2], share) for share in (0.0, 0.5, 0.75, 0.99)] == [1, 3, 4, 4]


def fitted(batches):
    times = ExecutionTimes()
    for rows, ms in batches:
        times.add(rows, int(ms * MS))
    return times


def test_execution_times_are_a_line_through_the_batches():
    rng = random.Random(0)
    sizes = [rng.choice([1, 4, 16]) for _ in range(60)]
    times = fitted((rows, (5 + 0.5 * rows) * rng.uniform(0.9, 1.1)) for rows in sizes)
    assert times.expected_ns(32) / MS == pytest.approx(21, rel=0.1)
    assert times.expected_ns(1) / MS == pytest.approx(5.5, rel=0.1)


def test_without_other_sizes_a_larger_batch_is_taken_to_cost_as_much_more():
    times = fitted([(4, 8)] * 20)
    assert times.expected_ns(4) / MS == pytest.approx(8)
    assert times.expected_ns(8) / MS == pytest.approx(16)
    assert fitted([]).expected_ns(8) == 0


def test_later_batches_count_for_more():
    times = fitted(
        [(rows, 10 + rows) for rows in (1, 2, 4, 8)] * 10 + [(rows, 20 + 2 * rows) for rows in (1, 2, 4, 8)] * 12
    )
    assert times.expected_ns(4) / MS == pytest.approx(28, rel=0.15)


def test_one_batch_that_was_held_up_is_no_news():
    times = fitted([(rows, 5) for rows in (1, 2, 4, 8)] * 5 + [(4, 5000)])
    assert times.expected_ns(4) / MS < 7


def test_time_that_falls_with_the_rows_is_no_time_below_zero():
    times = fitted([(1, 9), (2, 6), (4, 3), (8, 1)] * 5)
    assert times.row_ns == 0
    assert times.expected_ns(100) > 0


def test_a_ceiling_is_known_by_silence_and_forgotten_by_one_more():
    ceiling = Ceiling()
    for _ in range(6):
        ceiling.waited(4, 1.0)
        assert ceiling.rows is None
    ceiling.waited(4, 1.0)
    assert ceiling.rows == 4
    ceiling.saw(4)
    assert ceiling.rows == 4
    ceiling.saw(5)
    assert ceiling.rows is None


def test_other_numbers_in_between_are_no_ceiling():
    ceiling = Ceiling()
    for number in (3, 4) * 20:
        ceiling.waited(number, 5.0)
    assert ceiling.rows is None
