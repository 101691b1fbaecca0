"""Turns of the rate limiter, driven by hand: who has its turn, in which order, and how often in the long run."""

import random
from collections import Counter

import pytest

from charonia.config.rate_limits import NO_NEEDS, NeededResource, RateNeeds, given_resources
from charonia.core.errors import InvalidArgumentError
from charonia.scheduling.rate_limit import RateLimiter
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request


def needs(priority=1, **counts):
    """`R=2` needs two of its device's R; `R_global=2` two of the server's R."""
    resources = [
        NeededResource(name.removesuffix("_global"), count, name.endswith("_global")) for name, count in counts.items()
    ]
    return RateNeeds(tuple(resources), priority)


def share(limiter, model, rate, device=0):
    return limiter.group(model).join([(object(), f"{model}_0", device, rate)])[0]


def limiter(*given):
    return RateLimiter(given_resources(given))


def execute(share_):
    assert share_.ask()
    share_.begin([make_request(KeptReplies())])


def test_those_that_need_nothing_never_wait():
    shares = [share(limiter(), "m", NO_NEEDS) for _ in range(3)]
    for each in shares:
        execute(each)


def test_two_that_need_all_there_is_go_one_after_the_other():
    limits = limiter()
    first, second = share(limits, "a", needs(R=1)), share(limits, "b", needs(R=1))
    execute(first)
    assert not second.ask()
    assert not second.changed.is_set()
    first.free()
    assert second.changed.is_set()
    assert second.ask()


def test_more_of_a_resource_than_the_largest_need_lets_several_go():
    limits = limiter("R:3")
    shares = [share(limits, "m", needs(R=1)) for _ in range(4)]
    assert [each.ask() for each in shares] == [True, True, True, False]


def test_resources_of_one_device_are_not_those_of_another_and_global_ones_are():
    limits = limiter()
    here, there = share(limits, "a", needs(R=1), device=0), share(limits, "b", needs(R=1), device=1)
    execute(here)
    execute(there)
    one, other = share(limits, "c", needs(G_global=1), device=0), share(limits, "d", needs(G_global=1), device=1)
    execute(one)
    assert not other.ask()


def test_one_device_may_have_more_of_a_resource():
    limits = limiter("R:1", "R:2:1")
    for device, turns in ((0, [True, False]), (1, [True, True])):
        shares = [share(limits, "m", needs(R=1), device) for _ in range(2)]
        assert [each.ask() for each in shares] == turns


def test_of_a_global_resource_any_device_of_the_command_line_counts():
    share(limiter("G:4:7"), "m", needs(G_global=4))


def test_an_instance_that_needs_more_than_there_is_is_refused_and_changes_nothing():
    limits = limiter("R:3")
    with pytest.raises(InvalidArgumentError, match=r"model 'm': .*\"R\" is limited to 3 on device 0, .*m_0 needs 4"):
        share(limits, "m", needs(R=4))
    with pytest.raises(InvalidArgumentError, match=r'"Q" is limited to 0'):
        share(limits, "m", needs(Q=1))
    for _ in range(3):
        execute(share(limits, "m", needs(R=1)))


def test_what_is_given_for_another_device_is_not_there():
    with pytest.raises(InvalidArgumentError, match="limited to 0 on device 0"):
        share(limiter("R:10:10"), "m", needs(R=4))


def test_a_resource_is_global_for_all_or_for_none():
    limits = limiter()
    first = share(limits, "a", needs(R=1))
    with pytest.raises(InvalidArgumentError, match=r'"R" is present as both.*\'a\' it has global: false.*\'b\''):
        share(limits, "b", needs(R_global=1))
    first.leave()
    share(limits, "b", needs(R_global=1))


def test_what_leaves_takes_its_need_along_and_what_it_held():
    log, kept = kept_log(verbose_level=1)
    limits = RateLimiter({}, log)
    small, large = share(limits, "a", needs(R=3)), share(limits, "b", needs(R=4))
    assert r"Resource: R\t Count: 4" in kept.lines[-1]
    execute(large)
    assert not small.ask()
    large.leave()
    large.leave()
    assert small.ask()
    assert r"Resource: R\t Count: 3" in kept.lines[-1]


def test_no_waiting_instance_is_overtaken_on_what_it_waits_for():
    limits = limiter("R:4", "Q:1")
    running, large = share(limits, "a", needs(R=2)), share(limits, "b", needs(R=4))
    small, other = share(limits, "c", needs(R=2)), share(limits, "d", needs(Q=1))
    execute(running)
    assert not large.ask()
    assert not small.ask()  # there is enough for it, but the large one would never get its four
    assert other.ask()
    running.free()
    assert large.ask()
    assert not small.ask()


def test_a_turn_without_use_costs_nothing():
    limits = limiter()
    first, second = share(limits, "a", needs(R=1)), share(limits, "b", needs(R=1))
    execute(first)
    assert not second.ask()
    first.free()
    assert second.ask()
    before = second.spent
    second.free()  # its requests were cancelled meanwhile
    assert second.spent == before - 1
    assert first.ask()


def test_who_would_not_wait_leaves_no_trace():
    limits = limiter()
    first, second = share(limits, "a", needs(R=1)), share(limits, "b", needs(R=1))
    execute(first)
    assert not second.take()
    first.free()
    assert not second.changed.is_set()
    assert second.take()


class Market:
    """Instances that always have work, or have it by chance, on resources that let only some execute at a time."""

    def __init__(self, limits, rates, devices=None):
        self.shares = [share(limits, name, rate, (devices or {}).get(name, 0)) for name, rate in rates.items()]
        self.counts = Counter()
        self.executing = []

    def run(self, steps, busy=lambda name: True, seed=1):
        choice = random.Random(seed)
        for each in self.shares:
            if each not in self.executing and busy(each.group.model):
                each.ask()
        for _ in range(steps):
            self._begin()
            if not self.executing:
                return
            done = self.executing.pop(choice.randrange(len(self.executing)))
            if busy(done.group.model):
                done.ask()
            else:
                done.free()

    def stop(self):
        self.executing.clear()
        for each in self.shares:
            each.free()

    def _begin(self):
        for each in self.shares:
            if each.changed.is_set() and each.ask():
                each.changed.clear()
                each.begin(())
                self.counts[each.group.model] += 1
                self.executing.append(each)


def test_in_the_long_run_an_instance_executes_in_inverse_proportion_to_its_priority():
    market = Market(limiter(), {"a": needs(1, R=1), "b": needs(2, R=1), "c": needs(4, R=1)})
    market.run(7000)
    assert abs(market.counts["a"] - 4000) <= 4
    assert abs(market.counts["b"] - 2000) <= 4
    assert abs(market.counts["c"] - 1000) <= 4


def test_the_proportions_hold_where_several_execute_at_a_time():
    market = Market(limiter("R:4"), {name: needs(1 + (name > "d"), R=2) for name in "abcdefgh"})
    market.run(6000)
    for name in "abcd":
        assert abs(market.counts[name] - 1000) <= 5, market.counts
    for name in "efgh":
        assert abs(market.counts[name] - 500) <= 5, market.counts


def test_large_needs_starve_nobody_and_are_not_starved():
    market = Market(limiter("R:4"), {"large": needs(R=4), **{f"small{n}": needs(R=1) for n in range(6)}})
    market.run(7000)
    assert max(market.counts.values()) - min(market.counts.values()) <= 20, market.counts


def test_nothing_is_owed_for_time_without_work():
    """After an hour of nothing an instance has no claim to go alone for the next hour."""
    market = Market(limiter(), {"steady": needs(R=1), "late": needs(R=1)})
    market.run(1000, busy=lambda name: name == "steady")
    assert market.counts == {"steady": 1000}
    market.counts.clear()
    market.stop()
    market.run(1000)
    assert abs(market.counts["steady"] - market.counts["late"]) <= 3, market.counts


def test_the_urgent_one_begins_and_goes_on_in_the_order_of_triton():
    """Of two new instances whose priorities are 1 and 2; recorded with Triton 2.51."""
    market = Market(limiter(), {"a": needs(1, R=1), "b": needs(2, R=1)})
    order = []
    for _ in range(12):
        before = market.counts.copy()
        market.run(1)
        order += (market.counts - before).keys()
    assert "".join(order) == "aabaabaabaab"


def test_a_new_instance_begins_nearly_level_with_those_that_are_there():
    limits = limiter()
    old = Market(limits, {"old": needs(R=1)})
    old.run(500)
    new = share(limits, "new", needs(R=1))
    assert not new.ask()
    assert new.spent == old.shares[0].spent - 1 - 2  # it may catch up with two executions


def test_random_needs_on_random_devices_never_use_more_than_there_is():
    choice = random.Random(7)
    limits = limiter("R:3", "Q:2", "G:4")
    rates = {
        f"m{n}": needs(
            choice.randint(1, 3), R=choice.randint(0, 3), Q=choice.randint(0, 2), G_global=choice.randint(0, 4)
        )
        for n in range(12)
    }
    market = Market(limits, rates, {name: choice.randint(0, 1) for name in rates})
    for round_ in range(300):
        market.run(20, busy=lambda name: choice.random() < 0.7, seed=round_)
        held = Counter()
        for each in market.shares:
            if each.holds:
                held.update(each.needs)
        assert all(count <= {"R": 3, "Q": 2, "G": 4}[name] for (_, name), count in held.items())
        assert all(limits._used[key] == held[key] for key in limits._used)
    market.stop()
    assert not any(limits._used.values())
