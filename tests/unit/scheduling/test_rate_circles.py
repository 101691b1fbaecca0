"""Calls between models that hold resources: those that would wait for ever are refused, and no others."""

import pytest

from charonia.config.rate_limits import NO_NEEDS
from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.core.request import Caller
from charonia.testing.requests import KeptReplies, make_request
from tests.unit.scheduling.test_rate_limit import execute, limiter, needs


class World:
    """Models by name, each with the needs of its instances."""

    def __init__(self, limits, **models):
        self.groups = {name: limits.group(name) for name in models}
        self.shares = {
            name: group.join([(object(), f"{name}_{number}", 0, rate) for number, rate in enumerate(models[name])])
            for name, group in self.groups.items()
        }

    def begin(self, model, number=0, request=None):
        share = self.shares[model][number]
        assert share.ask()
        share.begin([request or make_request(KeptReplies())])
        return share

    def call(self, share, model, sure=True):
        """The request of a call by the model that `share` executes, as if it were queued then."""
        request = make_request(KeptReplies())
        request.caller = Caller(share.instance, sure)
        self.groups[model].admit(request)
        return request


def test_a_call_that_needs_what_its_caller_holds_is_refused():
    world = World(limiter(), outer=[needs(R=2)], inner=[needs(R=1)])
    with pytest.raises(InvalidArgumentError, match=r"'inner' would wait.*outer_0 holds 2 of the 2 of resource 'R'"):
        world.call(world.begin("outer"), "inner")


def test_with_enough_of_the_resource_it_is_served():
    world = World(limiter("R:3"), outer=[needs(R=2)], inner=[needs(R=1)])
    world.call(world.begin("outer"), "inner")
    assert world.shares["inner"][0].ask()


def test_what_others_hold_and_give_back_is_waited_for():
    world = World(limiter("R:3"), outer=[needs(R=1)], other=[needs(R=2)], inner=[needs(R=2)])
    other = world.begin("other")
    world.call(world.begin("outer"), "inner")
    assert not world.shares["inner"][0].ask()
    other.free()
    assert world.shares["inner"][0].ask()


def test_a_circle_may_lead_through_models_that_need_nothing():
    world = World(limiter(), outer=[needs(R=1)], middle=[NO_NEEDS], inner=[needs(R=1)])
    request = world.call(world.begin("outer"), "middle")
    middle = world.begin("middle", request=request)
    with pytest.raises(InvalidArgumentError, match=r"outer_0 holds 1 of the 1 of resource 'R'"):
        world.call(middle, "inner")


def test_callers_that_are_in_each_other_s_way_are_told_one_by_one():
    """Each alone would be served; the last one that would close the circle is refused, and that sets the first free."""
    world = World(limiter("R:4"), outer=[needs(R=2), needs(R=2)], inner=[needs(R=2)])
    first, second = world.begin("outer", 0), world.begin("outer", 1)
    world.call(first, "inner")
    with pytest.raises(UnavailableError, match="would wait for ever"):
        world.call(second, "inner")
    second.free()
    assert world.shares["inner"][0].ask()


def test_a_circle_may_close_where_no_resource_is_missing():
    """`taker` waits for the only instance of `busy`, which waits for what `taker` holds."""
    world = World(limiter(), taker=[needs(R=1)], busy=[NO_NEEDS], inner=[needs(R=1)])
    busy = world.begin("busy")
    taker = world.begin("taker")
    world.call(busy, "inner")
    with pytest.raises((InvalidArgumentError, UnavailableError), match="'busy' would wait for ever"):
        world.call(taker, "busy")


def test_a_call_goes_before_those_that_wait_for_what_its_caller_holds():
    world = World(limiter("R:4"), outer=[needs(R=2)], large=[needs(R=4)], inner=[needs(R=2)])
    outer = world.begin("outer")
    assert not world.shares["large"][0].ask()
    request = world.call(outer, "inner")
    inner = world.shares["inner"][0]
    assert inner.ask()
    inner.begin([request])
    request.settle()
    inner.free()
    assert not inner.group.calls
    outer.free()
    assert world.shares["large"][0].turn.name == "GRANTED"


def test_a_call_whose_answer_has_come_is_waited_for_no_more():
    world = World(limiter("R:3"), outer=[needs(R=2)], inner=[needs(R=1)], other=[needs(R=3)])
    outer = world.begin("outer")
    world.call(outer, "inner").settle()
    world.shares["other"][0].ask()
    with pytest.raises(InvalidArgumentError):
        world.call(outer, "other")


def test_where_a_thread_of_the_user_s_waits_the_batch_may_end_without_it():
    world = World(limiter(), outer=[needs(R=1)], inner=[needs(R=1)])
    outer = world.begin("outer")
    with pytest.raises(InvalidArgumentError):
        world.call(outer, "inner", sure=False)
    outer.overlaps = True
    world.call(outer, "inner", sure=False)


def test_who_executes_nothing_waits_for_nothing():
    world = World(limiter(), outer=[needs(R=1)], inner=[needs(R=1)])
    outer = world.begin("outer")
    outer.free()
    execute(outer)
    outer.free()
    world.call(outer, "inner")
    assert world.shares["inner"][0].ask()


def test_calls_of_unknown_instances_are_let_through():
    world = World(limiter(), inner=[needs(R=1)])
    request = make_request(KeptReplies())
    request.caller = Caller(object(), is_sure=True)
    world.groups["inner"].admit(request)


def test_answers_without_an_execution_are_not_kept_either():
    world = World(limiter("R:2"), outer=[needs(R=1)], inner=[needs(R=1)])
    outer = world.begin("outer")
    for _ in range(100):
        world.call(outer, "inner").settle()
    assert len(outer.calls) == len(world.groups["inner"].calls) == 1


def test_what_has_been_answered_is_not_kept():
    world = World(limiter("R:2"), outer=[needs(R=1)], inner=[needs(R=1)])
    outer = world.begin("outer")
    request = world.call(outer, "inner")
    inner = world.begin("inner", request=request)
    request.settle()
    inner.free()
    outer.free()
    assert not inner.group.calls
    assert not outer.calls
    assert not (*inner.requests, *outer.requests)
