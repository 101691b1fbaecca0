"""Sampling, as Triton counts."""

import pytest

from charonia.observe.traces.setting import Level, TraceSetting, TraceValues


def setting(rate=1, count=-1, fault=""):
    return TraceSetting(TraceValues(Level.TIMESTAMPS, rate, count), fault=fault)


def test_every_so_many_requests_are_traced():
    every_third = setting(rate=3)
    assert [every_third.sample() for _ in range(7)] == [False, False, True, False, False, True, False]


def test_the_count_is_used_up():
    two = setting(rate=2, count=2)
    assert [two.sample() for _ in range(6)] == [False, True, False, True, False, False]
    assert two.values.count == 0
    assert not two.used_up, "they have not been collected"
    two.finished()
    two.finished()
    assert two.used_up


def test_a_context_forces_a_trace_and_leaves_the_count_alone_when_it_is_used_up():
    one = setting(rate=1, count=1)
    assert one.sample()
    assert not one.sample()
    assert one.sample(forced=True)
    assert one.values.count == 0


def test_forced_traces_are_counted_where_they_are_due():
    every_second = setting(rate=2, count=5)
    assert [every_second.sample(forced=True) for _ in range(4)] == [True] * 4
    assert every_second.values.count == 3


def test_a_rate_of_0_traces_what_brings_a_context_only():
    never = setting(rate=0, fault="sample rate must be non-zero")
    assert not never.sample()
    assert never.sample(forced=True)


@pytest.mark.parametrize("rate", [1, 3])
def test_what_can_not_be_traced_is_not(rate):
    assert not any(setting(rate=rate, fault="no file").sample() for _ in range(6))


def test_it_is_over_when_it_is_retired_and_its_traces_are_in():
    old = setting()
    assert old.sample()
    old.retire()
    assert not old.over
    old.finished()
    assert old.over
