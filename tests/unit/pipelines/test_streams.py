"""Decoupled steps: each response flows on, answers keep their order, and the reader's pace reaches the first step."""

import pytest

from charonia.core.errors import BackendError
from charonia.core.request import Reply
from charonia.pipelines.run import OPEN_STRANDS
from tests.unit.pipelines.ensembles import Ensemble, StepModel, config_of

CHAIN = """
    many: IN>IN -> OUT>x
    next: IN>x -> OUT>y
    last: IN>y -> OUT>OUT
"""


def stream_of(steps=CHAIN, *, decoupled=("many",), options="", **config):
    models = {name: StepModel.of(name, decoupled=True) for name in decoupled}
    return Ensemble(config_of(steps, options=options, **config), **models)


class Reader:
    """A Flow that the test opens and closes."""

    def __init__(self, *, room=True):
        self.room = room
        self.listeners = []

    def has_room(self):
        return self.room

    def on_room(self, listener):
        if self.room:
            listener()
        else:
            self.listeners.append(listener)

    def open(self):
        self.room = True
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener()


def test_each_response_of_a_step_flows_on_and_the_end_comes_last():
    ensemble = stream_of()
    request = ensemble.ask(takes_stream=True)
    many = ensemble.next()
    assert many.takes_stream
    for value in (1, 2):
        ensemble.reply(many, final=False, OUT=value)
        assert not ensemble.answer("next").takes_stream
        ensemble.answer("last")
    ensemble.finish(many)
    assert ensemble.stream(request) == ["[1.0]", "[2.0]", "end!"]
    assert ensemble.statistics.execution_count == 1


def test_the_final_flag_is_on_the_last_response_where_that_comes_last():
    ensemble = stream_of()
    request = ensemble.ask()
    many = ensemble.next()
    ensemble.reply(many, final=False, OUT=1)
    ensemble.reply(many, final=True, OUT=2)
    for _ in range(2):
        ensemble.answer("next")
        ensemble.answer("last")
    assert ensemble.stream(request) == ["[1.0]", "[2.0]!"]


def test_the_end_waits_for_what_is_on_its_way():
    ensemble = stream_of()
    request = ensemble.ask()
    many = ensemble.next()
    ensemble.reply(many, final=False, OUT=1)
    ensemble.finish(many)
    assert ensemble.stream(request) == []
    ensemble.answer("next")
    ensemble.answer("last")
    assert ensemble.stream(request) == ["[1.0]!"]


def test_no_response_at_all_is_a_bare_end():
    ensemble = stream_of()
    request = ensemble.ask()
    ensemble.finish(ensemble.next())
    assert ensemble.stream(request) == ["end!"]
    assert request.settled


def test_answers_leave_in_the_order_of_the_responses_whichever_step_is_faster():
    ensemble = stream_of()
    request = ensemble.ask()
    many = ensemble.next()
    for value in (1, 2, 3):
        ensemble.reply(many, final=False, OUT=value)
    first, second, third = (ensemble.next("next") for _ in range(3))
    for each in (third, first):
        ensemble.reply(each)
        ensemble.answer("last")
    assert ensemble.stream(request) == ["[1.0]"]
    ensemble.reply(second)
    ensemble.answer("last")
    ensemble.finish(many)
    assert ensemble.stream(request) == ["[1.0]", "[2.0]", "[3.0]", "end!"]


def test_streams_of_streams_keep_the_order_too():
    ensemble = stream_of(decoupled=("many", "next"))
    request = ensemble.ask()
    many = ensemble.next()
    ensemble.reply(many, final=False, OUT=10)
    ensemble.reply(many, final=False, OUT=20)
    ensemble.finish(many)
    first, second = ensemble.next("next"), ensemble.next("next")
    for each, value in ((second, 21), (first, 11), (second, 22), (first, 12)):
        ensemble.reply(each, final=False, OUT=value)
        ensemble.answer("last")
    ensemble.finish(second)
    assert ensemble.stream(request) == ["[11.0]", "[12.0]"]
    ensemble.finish(first)
    assert ensemble.stream(request) == ["[11.0]", "[12.0]", "[21.0]", "[22.0]!"]


def test_branches_behind_a_decoupled_step_join_what_one_response_made():
    steps = """
        many: IN>IN -> OUT>x
        left: IN>x -> OUT>y
        right: IN>x -> OUT>z
        join: IN>y, IN1>z -> OUT>OUT
    """
    ensemble = stream_of(steps)
    request = ensemble.ask()
    many = ensemble.next()
    for value in (1, 2):
        ensemble.reply(many, final=False, OUT=value)
    ensemble.finish(many)
    lefts = [ensemble.next("left") for _ in range(2)]
    for each in reversed(lefts):  # the second overtakes the first
        ensemble.reply(each)
    for _ in range(2):
        ensemble.answer("right")
    while ensemble.asked:
        joined = ensemble.answer("join")
        left, right = (joined.inputs[name].numpy()[0, 0] for name in ("IN", "IN1"))
        assert left == right
    assert ensemble.stream(request) == ["[1.0]", "[2.0]!"]


def test_steps_before_a_decoupled_one_run_once():
    ensemble = stream_of("a: IN>IN -> OUT>x\nmany: IN>x -> OUT>OUT")
    request = ensemble.ask()
    ensemble.answer("a", OUT=1)
    many = ensemble.next("many")
    for value in (1, 2):
        ensemble.reply(many, final=False, OUT=value)
    ensemble.finish(many)
    assert ensemble.stream(request) == ["[1.0]", "[2.0]", "end!"]


def test_outputs_that_need_no_decoupled_step_come_once_and_finally():
    ensemble = stream_of("a: IN>IN -> OUT>x\nmany: IN>x -> OUT>OUT", outputs="OUT x")
    request = ensemble.ask(("x",))
    ensemble.answer("a", OUT=4)
    assert ensemble.stream(request) == ["[4.0]!"]


def test_an_error_ends_the_stream_after_what_was_answered():
    ensemble = stream_of()
    request = ensemble.ask()
    many = ensemble.next()
    ensemble.reply(many, final=False, OUT=1)
    ensemble.answer("next")
    ensemble.answer("last")
    ensemble.reply(many, final=False, OUT=2)
    ensemble.fail(BackendError("broke"), "next")
    ensemble.reply(many, final=False, OUT=3)
    assert ensemble.stream(request) == ["[1.0]", "in ensemble 'e', step 2 (model 'next'): broke!"]
    assert many.cancelled


@pytest.mark.parametrize("final", [True, False])
def test_the_error_of_a_decoupled_step_comes_after_the_answers_of_its_earlier_responses(final):
    ensemble = stream_of()
    request = ensemble.ask()
    many = ensemble.next()
    for value in (1, 2):
        ensemble.reply(many, final=False, OUT=value)
    many.channel.send([Reply(many, error=BackendError("broke"), final=final)])
    if not final:
        ensemble.reply(many, final=False, OUT=3)
    assert ensemble.stream(request) == []
    for _ in range(2):
        ensemble.answer("next")
        ensemble.answer("last")
    assert ensemble.stream(request) == ["[1.0]", "[2.0]", "in ensemble 'e', step 1 (model 'many'): broke!"]
    assert ensemble.asked == []
    # An error that the step goes on from is no failure of the step's, only of the request.
    assert ensemble.statistics.failures["OTHER"] == 1 + final


def test_errors_keep_the_order_of_what_they_belong_to():
    ensemble = stream_of()
    request = ensemble.ask()
    many = ensemble.next()
    for value in (1, 2):
        ensemble.reply(many, final=False, OUT=value)
    first, second = ensemble.next("next"), ensemble.next("next")
    second.channel.send([Reply(second, error=BackendError("second"))])
    assert ensemble.stream(request) == []
    first.channel.send([Reply(first, error=BackendError("first"))])
    assert ensemble.stream(request) == ["in ensemble 'e', step 2 (model 'next'): first!"]


def test_the_first_step_sees_how_far_the_reader_is_behind():
    ensemble = stream_of()
    reader = Reader(room=False)
    ensemble.ask(flow=reader)
    flow = ensemble.next().flow
    woken = []
    assert not flow.has_room()
    flow.on_room(lambda: woken.append(1))
    assert woken == []
    reader.open()
    assert (woken, flow.has_room()) == ([1], True)


def test_it_sees_how_much_is_on_its_way_through_later_steps():
    ensemble = stream_of()
    ensemble.ask()
    many = ensemble.next()
    for _ in range(OPEN_STRANDS):
        assert many.flow.has_room()
        ensemble.reply(many, final=False, OUT=1)
    woken = []
    many.flow.on_room(lambda: woken.append(1))
    assert (woken, many.flow.has_room()) == ([], False)
    ensemble.answer("next")
    ensemble.answer("last")
    assert (woken, many.flow.has_room()) == ([1], True)


@pytest.mark.parametrize("how", ["cancel", "fail", "stop"])
def test_who_waits_for_room_is_woken_by_the_end(how):
    ensemble = stream_of()
    request = ensemble.ask(flow=Reader())
    many = ensemble.next()
    for _ in range(OPEN_STRANDS):
        ensemble.reply(many, final=False, OUT=1)
    woken = []
    many.flow.on_room(lambda: woken.append(1))
    {
        "cancel": request.cancel,
        "fail": lambda: ensemble.fail(BackendError("broke"), "next"),
        "stop": ensemble.scheduler.stop,
    }[how]()
    assert (woken, many.flow.has_room(), many.cancelled) == ([1], True, True)


def test_a_slow_reader_and_full_steps_are_both_waited_for():
    ensemble = stream_of()
    reader = Reader(room=False)
    ensemble.ask(flow=reader)
    many = ensemble.next()
    for _ in range(OPEN_STRANDS):
        ensemble.reply(many, final=False, OUT=1)
    woken = []
    many.flow.on_room(lambda: woken.append(1))
    ensemble.answer("next")
    ensemble.answer("last")
    assert woken == []
    reader.open()
    assert woken == [1]


LIMITED = "max_inflight_requests: 2"


def test_a_limit_holds_back_what_exceeds_it_in_order():
    ensemble = stream_of(options=LIMITED)
    request = ensemble.ask()
    many = ensemble.next()
    for value in (1, 2, 3, 4):
        ensemble.reply(many, final=False, OUT=value)
    assert ensemble.waiting == ["next", "next"]
    assert (many.flow.has_room(), ensemble.scheduler.pending_count) == (False, 2)
    woken = []
    many.flow.on_room(lambda: woken.append(1))
    ensemble.answer("next")
    assert ensemble.waiting == ["next", "last", "next"] or ensemble.waiting == ["next", "next", "last"]
    assert woken == []
    ensemble.answer("next")
    assert (woken, many.flow.has_room(), ensemble.scheduler.pending_count) == ([1], True, 0)
    ensemble.finish(many)
    while ensemble.asked:
        ensemble.answer()
    assert ensemble.stream(request) == ["[1.0]", "[2.0]", "[3.0]", "[4.0]!"]


def test_a_limit_is_shared_by_all_requests_of_the_ensemble():
    ensemble = stream_of("a: IN>IN -> OUT>OUT", decoupled=(), options=LIMITED)
    requests = [ensemble.ask(IN=value) for value in range(4)]
    assert ensemble.waiting == ["a", "a"]
    requests[2].cancel()  # it waits for a place, and gets none
    for _ in range(3):
        ensemble.answer()
    assert ensemble.asked == []
    assert [reply.error is None for reply in ensemble.channel.replies] == [False, True, True, True]


def test_failing_gives_the_places_back():
    ensemble = stream_of("a: IN>IN -> OUT>OUT", decoupled=(), options="max_inflight_requests: 1")
    for _ in range(3):
        ensemble.ask()
    for _ in range(3):
        assert ensemble.waiting == ["a"]
        ensemble.fail(BackendError("broke"))
    assert len(ensemble.channel.replies) == 3
    ensemble.ask()
    assert ensemble.waiting == ["a"]


def test_a_cancelled_stream_gives_its_places_back():
    ensemble = stream_of(options="max_inflight_requests: 1")
    request = ensemble.ask()
    many = ensemble.next()
    for _ in range(3):
        ensemble.reply(many, final=False, OUT=1)
    other = ensemble.ask()
    assert ensemble.waiting == ["next"]
    request.cancel()
    assert many.flow.has_room()
    ensemble.finish(many)
    ensemble.answer("next")
    assert ensemble.waiting == ["many"]
    many = ensemble.next()
    ensemble.reply(many, OUT=5)
    ensemble.answer("next")
    ensemble.answer("last")
    assert ensemble.stream(other) == ["[5.0]!"]


def test_a_step_does_not_keep_its_instance_from_an_earlier_response():
    steps = "many: IN>IN -> OUT>x\nmid: IN>x -> OUT>y\npour: IN>y -> OUT>OUT"
    ensemble = stream_of(steps, decoupled=("many", "pour"))
    request = ensemble.ask()
    many = ensemble.next()
    ensemble.reply(many, final=False, OUT=1)
    ensemble.reply(many, final=False, OUT=2)
    first, second = ensemble.next(), ensemble.next()
    ensemble.reply(second)
    later = ensemble.next("pour")  # its only instance executes this, which comes second
    for _ in range(OPEN_STRANDS):
        ensemble.reply(later, final=False, OUT=2)
    woken = []
    later.flow.on_room(lambda: woken.append(1))
    assert (woken, later.flow.has_room()) == ([], False)
    ensemble.reply(first)
    assert ensemble.waiting == ["pour"]
    assert (woken, later.flow.has_room()) == ([1], True)
    earlier = ensemble.next("pour")
    ensemble.reply(earlier, final=False, OUT=1)
    assert not later.flow.has_room()  # another instance executes the earlier one: nobody is kept from anything
    assert earlier.flow.has_room()
    for step in (earlier, later, many):
        ensemble.finish(step)
    assert ensemble.stream(request) == ["[1.0]"] + ["[2.0]"] * OPEN_STRANDS + ["end!"]
