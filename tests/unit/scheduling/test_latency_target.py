"""Latency targets in simulated time: what was asked for is kept, and batches are nearly the best fixed delay's."""

from itertools import chain

import pytest

from tests.unit.scheduling.latency_world import (
    LatencyWorld,
    best_fixed,
    bursts,
    clients,
    line,
    mean_rows,
    percentile_ms,
    steady,
)

TARGET_MS = 20.0
FIXED_MS = (0, 5, 10, 14, 15, 16, 17, 20, 28)
# Not counted: the target is new, or what it knew has just changed.
SETTLED_S = 3.0


def fixed(takes, arrivals, quantile=0.95, **options):
    """The mean batch of the best fixed delay."""
    rows, _ = best_fixed(
        lambda **delay: LatencyWorld(takes(), **{**options, **delay}),
        lambda world: world.run(arrivals()),
        quantile,
        TARGET_MS,
        FIXED_MS,
        SETTLED_S,
    )
    return rows


STEADY = {
    "few": (100, {}, {}),
    "some": (500, {}, {}),
    "many": (1200, {}, {}),
    "p50": (500, {"quantile": 0.5}, {}),
    "p99": (500, {"quantile": 0.99}, {}),
    "two instances": (1000, {"instances": 2}, {}),
    "preferred sizes": (500, {"preferred": (4, 8)}, {}),
    "mixed rows": (300, {}, {"rows": lambda rng: rng.choice([1, 1, 2, 3])}),
    "mixed shapes": (500, {}, {"key": lambda rng: rng.choice([1, 1, 1, 2])}),
}


@pytest.mark.parametrize(("per_s", "options", "requests"), STEADY.values(), ids=STEADY.keys())
def test_steady_load(per_s, options, requests):
    quantile = options.get("quantile", 0.95)

    def takes():
        return line(2, 0.05)

    def arrivals():
        return steady(per_s, 11, **requests)

    world = LatencyWorld(takes(), target_ms=TARGET_MS, **options)
    done = world.run(arrivals())
    assert percentile_ms(done, quantile, SETTLED_S) <= TARGET_MS
    best = fixed(takes, arrivals, **options)
    # Sizes that few delays tell apart are the exception: a delay a little shorter then makes smaller batches.
    assert mean_rows(done, SETTLED_S) >= (0.9 if requests else 0.95) * best
    assert [line for line in world.lines.lines if "can't be met" in line] == []


def test_bursts_wait_for_their_end_and_no_longer():
    world = LatencyWorld(line(2, 0.05), target_ms=TARGET_MS)
    done = world.run(bursts(20, 100, 20))
    assert mean_rows(done, SETTLED_S) == pytest.approx(20, rel=0.01)
    assert percentile_ms(done, 0.95, SETTLED_S) < TARGET_MS / 2
    assert world.rule.delay_us < 3000


def test_a_step_of_the_load():
    world = LatencyWorld(line(2, 0.05), target_ms=TARGET_MS)
    done = world.run(chain(steady(200, 8), steady(2000, 8, seed=5, start_s=8.0), steady(200, 8, seed=6, start_s=16.0)))
    assert percentile_ms(done, 0.95) <= TARGET_MS
    low, high = mean_rows(done, SETTLED_S, 8), mean_rows(done, 9, 16)
    assert mean_rows(done, 18, 24) == pytest.approx(low, rel=0.1)
    assert high > 6 * low


def test_executions_that_take_twice_as_long():
    fast, slow = line(2, 0.1), line(4, 0.2, seed=9)
    world = LatencyWorld(lambda rows, now_s: (slow if 8 <= now_s < 16 else fast)(rows, now_s), target_ms=TARGET_MS)
    done = world.run(steady(500, 24))
    for after_s, until_s in ((SETTLED_S, 8), (10, 16), (18, 24)):
        assert percentile_ms(done, 0.95, after_s, until_s) <= TARGET_MS
    before, during = ([us for s, us in world.delays_us if a <= s < b][-1] for a, b in ((0, 8), (8, 16)))
    assert during < before - 2000  # two more milliseconds and some are executed


def test_a_configured_delay_is_never_exceeded():
    world = LatencyWorld(line(2, 0.05), target_ms=TARGET_MS, delay_us=5000)
    done = world.run(steady(500, 10))
    assert max(us for _, us in world.delays_us) <= 5000
    assert mean_rows(done, SETTLED_S) >= 0.95 * mean_rows(
        LatencyWorld(line(2, 0.05), delay_us=5000).run(steady(500, 10))
    )


def test_what_is_out_of_reach_is_told_once_and_comes_back():
    fast, slow = line(2, 0.1), line(25, 0.1, seed=9)
    world = LatencyWorld(lambda rows, now_s: (slow if 8 <= now_s < 20 else fast)(rows, now_s), target_ms=TARGET_MS)
    done = world.run(steady(500, 32))
    assert {us for s, us in world.delays_us if 11 <= s < 20} == {0}
    assert percentile_ms(done, 0.95, 26, 32) <= TARGET_MS
    assert mean_rows(done, 26, 32) >= 0.9 * mean_rows(done, SETTLED_S, 8)
    told = [line.partition("] ")[2].strip('"') for line in world.lines.lines if line.startswith("W")]
    assert told == ["model 'm': the target (20 ms) can't be met, so requests wait for no others"]
    assert [line for line in world.lines.lines if "can be met again" in line]


def test_one_moment_in_which_everything_stood_still_changes_little():
    usual = line(2, 0.05)
    stall_s = [8.0]

    def takes(rows, now_s):
        if stall_s and now_s >= stall_s[0]:
            stall_s.clear()
            return 300_000_000
        return usual(rows, now_s)

    world = LatencyWorld(takes, target_ms=TARGET_MS)
    done = world.run(steady(500, 16))
    assert [line for line in world.lines.lines if line.startswith("W")] == []
    assert mean_rows(done, 12, 16) >= 0.95 * mean_rows(done, SETTLED_S, 8)


def test_more_than_the_model_can_do_is_out_of_reach():
    world = LatencyWorld(line(4, 1), target_ms=TARGET_MS)
    world.run(steady(2000, 5))
    assert world.rule.delay_us == 0
    assert len([line for line in world.lines.lines if line.startswith("W")]) == 1


@pytest.mark.parametrize("number", [1, 2, 4, 16, 32])
def test_nobody_waits_for_clients_who_all_wait(number):
    """Each asks again when it has its answer: with a delay, all would wait for nobody."""
    world = LatencyWorld(line(2, 0.05), target_ms=TARGET_MS)
    done = clients(world, number, 5)
    best = max(
        len([each for each in clients(LatencyWorld(line(2, 0.05), delay_us=us), number, 5) if each.arrived_s >= 2])
        for us in (0, 250, 500, 1000, 2000, 5000)
    )
    assert len([each for each in done if each.arrived_s >= 2]) >= 0.95 * best


def test_without_requests_nothing_is_known_and_nothing_waits():
    world = LatencyWorld(line(2, 0.05), target_ms=TARGET_MS)
    done = world.run([(0, 1, 1), (10_000_000, 1, 1)])
    assert [round(each.ms) for each in done] == [2, 2]
    assert world.rule.delay_us == 0
    assert world.lines.lines == []


def test_a_plan_is_made_in_steps_and_one_at_a_time():
    world, steps = LatencyWorld(line(2, 0.05), target_ms=TARGET_MS), []
    world.rule._defer = steps.append
    world.run(steady(500, 3))
    assert len(steps) == 1  # more plans would have been due
    assert world.rule.delay_us == 0
    count = 0
    while steps:
        steps.pop()()
        count += 1
    assert count > 10
    assert world.rule.delay_us > 0
