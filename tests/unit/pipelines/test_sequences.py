"""Requests of one sequence enter each step in the order in which they came, whatever overtakes whatever."""

import pytest

from charonia.core.errors import BackendError
from tests.unit.pipelines.ensembles import Ensemble, StepModel, config_of

CHAIN = """
    a: IN>IN -> OUT>x
    b: IN>x -> OUT>y
    c: IN>y -> OUT>OUT
"""


def value_of(request):
    return float(request.inputs["IN"].numpy()[0, 0])


def entered(ensemble, model):
    return [value_of(request) for request in ensemble.asked if request.model_name == model]


def test_what_overtakes_in_one_step_waits_before_the_next():
    ensemble = Ensemble(config_of(CHAIN))
    for value in (1, 2, 3):
        ensemble.ask(IN=value, correlation_id=7)
    first, second, third = (ensemble.next("a") for _ in range(3))
    ensemble.reply(third)
    ensemble.reply(second)
    assert entered(ensemble, "b") == []
    ensemble.reply(first)
    assert entered(ensemble, "b") == [1, 2, 3]
    for request in [ensemble.next("b") for _ in range(3)][::-1]:
        ensemble.reply(request)
    assert entered(ensemble, "c") == [1, 2, 3]


@pytest.mark.parametrize("others", [(0, 0), ("", ""), (5, "5"), (5, 6)])
def test_other_sequences_and_requests_of_none_do_not_wait(others):
    ensemble = Ensemble(config_of(CHAIN))
    for value, correlation_id in enumerate(others):
        ensemble.ask(IN=value, correlation_id=correlation_id)
    ensemble.next("a")
    ensemble.answer("a")
    assert entered(ensemble, "b") == [1]


@pytest.mark.parametrize("how", ["fail", "cancel"])
def test_one_that_ends_early_holds_nobody_up(how):
    ensemble = Ensemble(config_of(CHAIN))
    request = ensemble.ask(IN=1, correlation_id=7)
    ensemble.ask(IN=2, correlation_id=7)
    first = ensemble.next("a")
    ensemble.answer("a")
    assert entered(ensemble, "b") == []
    if how == "cancel":
        request.cancel()
    else:
        ensemble.asked.insert(0, first)
        ensemble.fail(BackendError("broke"), "a")
    assert entered(ensemble, "b") == [2]


def test_a_step_that_a_request_does_not_need_is_not_waited_for():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>x\nb: IN>x -> OUT>OUT", outputs="OUT x"))
    ensemble.ask(("x",), IN=1, correlation_id=7)
    ensemble.ask(IN=2, correlation_id=7)
    ensemble.next("a")
    ensemble.answer("a")
    assert entered(ensemble, "b") == [2]


def test_behind_a_decoupled_step_a_turn_lasts_until_the_stream_is_over():
    ensemble = Ensemble(config_of("m: IN>IN -> OUT>x\nb: IN>x -> OUT>OUT"), m=StepModel.of("m", decoupled=True))
    requests = [ensemble.ask(IN=value, correlation_id=7) for value in (1, 2)]
    first, second = ensemble.next("m"), ensemble.next("m")
    ensemble.reply(second, final=False, OUT=20)
    ensemble.reply(first, final=False, OUT=10)
    ensemble.reply(first, final=False, OUT=11)
    ensemble.finish(second)
    assert entered(ensemble, "b") == [10, 11]
    ensemble.answer("b")
    ensemble.answer("b")
    assert entered(ensemble, "b") == []
    ensemble.finish(first)
    assert entered(ensemble, "b") == [20]
    ensemble.answer("b")
    assert [ensemble.stream(request) for request in requests] == [["[10.0]", "[11.0]", "end!"], ["[20.0]!"]]


def test_nothing_is_remembered_of_sequences_without_requests():
    ensemble = Ensemble(config_of(CHAIN))
    ensemble.ask(correlation_id=7)
    for _ in range(3):
        ensemble.answer()
    assert ensemble.scheduler._sequences._lanes == {}


def test_the_order_holds_through_a_limit():
    ensemble = Ensemble(config_of(CHAIN, options="max_inflight_requests: 2"))
    for value in (1, 2, 3):
        ensemble.ask(IN=value, correlation_id=7)
    while ensemble.asked:
        ensemble.reply(ensemble.asked.pop())  # the newest first
    assert len(ensemble.channel.replies) == 3
    for model in ("a", "b", "c"):
        assert [value_of(request) for request in ensemble.submitted if request.model_name == model] == [1, 2, 3]


def test_a_stop_while_one_begins_fails_it_once_and_all_others():
    ensemble = Ensemble(config_of(CHAIN))
    earlier = ensemble.ask(IN=1, correlation_id=7)
    sequences = ensemble.scheduler._sequences
    join = sequences.join

    def stop_and_join(run):
        ensemble.scheduler.stop()
        join(run)
        ensemble.scheduler.stop()

    sequences.join = stop_and_join
    late = ensemble.ask(IN=2, correlation_id=8)
    for request in (earlier, late):
        assert ensemble.channel.error_of(request).endswith("model 'e' was unloaded")
    assert (len(ensemble.channel.replies), entered(ensemble, "a")) == (2, [1])
    assert not sequences._lanes
