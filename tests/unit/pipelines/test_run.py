"""What runs when, and what comes out, told by hand: no thread, no model."""

import numpy as np
import pytest

from charonia.core.errors import (
    BackendError,
    CancelledError,
    Code,
    InvalidArgumentError,
    NotFoundError,
    QueueFullError,
    UnavailableError,
)
from charonia.core.request import ANY_VERSION, Reply, refuse
from charonia.core.tensor import Tensor
from charonia.observe.stamps import Stamps
from charonia.testing.log import kept_log
from charonia.testing.requests import make_request
from tests.unit.pipelines.ensembles import Ensemble, Models, StepModel, config_of, tensor

CHAIN = """
    a: IN>IN -> OUT>x
    b: IN>x -> OUT>y
    c: IN>y -> OUT>OUT
"""
DIAMOND = """
    a: IN>IN -> OUT>x, MORE>x2
    b: IN>x -> OUT>y
    c: IN>x2 -> OUT>z
    d: IN>y, IN1>z -> OUT>OUT
"""


def test_a_chain_runs_step_by_step_and_its_last_output_is_the_answer():
    ensemble = Ensemble(config_of(CHAIN))
    request = ensemble.ask()
    for model, value in (("a", 2), ("b", 3), ("c", 4)):
        assert ensemble.waiting == [model]
        ensemble.answer(OUT=value)
    assert ensemble.outputs(request) == {"OUT": 4}
    assert request.settled


def test_independent_steps_run_side_by_side_and_what_joins_them_waits_for_both():
    ensemble = Ensemble(config_of(DIAMOND))
    request = ensemble.ask()
    ensemble.answer("a", OUT=1, MORE=2)
    assert sorted(ensemble.waiting) == ["b", "c"]
    ensemble.answer("c", OUT=20)
    assert ensemble.waiting == ["b"]
    ensemble.answer("b", OUT=10)
    joined = ensemble.answer("d", OUT=5)
    assert {name: float(each.numpy()[0, 0]) for name, each in joined.inputs.items()} == {"IN": 10, "IN1": 20}
    assert ensemble.outputs(request) == {"OUT": 5}


TWO_ENDS = """
    pre: IN>IN -> OUT>x
    left: IN>x -> OUT>LEFT, EXTRA>unread
    right: IN>x -> OUT>RIGHT
    after: IN>RIGHT -> OUT>LAST
"""


@pytest.mark.parametrize(
    ("requested", "steps", "answer"),
    [
        ((), ["pre", "left", "right", "after"], {"LEFT": 1, "RIGHT": 1, "LAST": 1}),
        (("LEFT",), ["pre", "left"], {"LEFT": 1}),
        (("RIGHT",), ["pre", "right"], {"RIGHT": 1}),
        (("LAST",), ["pre", "right", "after"], {"LAST": 1}),
        (("LAST", "LEFT"), ["pre", "left", "right", "after"], {"LAST": 1, "LEFT": 1}),
    ],
)
def test_only_the_steps_run_that_the_wanted_outputs_need(requested, steps, answer):
    ensemble = Ensemble(config_of(TWO_ENDS, outputs="LEFT RIGHT LAST"))
    request = ensemble.ask(requested)
    ran = []
    while ensemble.asked:
        ran.append(ensemble.answer())
    assert [each.model_name for each in ran] == steps
    assert {each.requested_outputs for each in ran} == {("OUT",)}  # EXTRA is read by nobody
    assert list(ensemble.outputs(request)) == list(answer)


def test_an_ensemble_whose_output_is_its_input_is_answered_at_once():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT", outputs="OUT IN"))
    assert ensemble.outputs(ensemble.ask(("IN",), IN=7)) == {"IN": 7}
    assert ensemble.asked == []


def test_a_tensor_that_feeds_two_inputs_of_one_step_is_waited_for_once():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>x\nb: IN>x, IN1>x -> OUT>OUT"))
    ensemble.ask()
    ensemble.answer("a")
    assert sorted(ensemble.next("b").inputs) == ["IN", "IN1"]


def test_steps_of_one_model_and_its_versions_are_told_apart():
    ensemble = Ensemble(config_of("m/1: IN>IN -> OUT>x\nm/2: IN>x -> OUT>OUT"))
    request = ensemble.ask()
    assert ensemble.answer(OUT=2).model_version == 1
    assert ensemble.answer(OUT=3).model_version == 2
    assert ensemble.outputs(request) == {"OUT": 3}


@pytest.mark.parametrize("version", ["0", "-1", "-7"])
def test_a_step_without_a_version_asks_for_the_latest(version):
    ensemble = Ensemble(config_of(f"m/{version}: IN>IN -> OUT>OUT"))
    ensemble.ask()
    assert ensemble.answer(OUT=2).model_version == ANY_VERSION


def test_optional_inputs_that_are_absent_hold_nothing_up():
    ensemble = Ensemble(config_of("a: IN>IN, IN1>MAYBE -> OUT>OUT", inputs="IN MAYBE?"))
    ensemble.ask(IN=1)
    assert sorted(ensemble.next().inputs) == ["IN"]
    ensemble.ask(IN=1, MAYBE=2)
    assert sorted(ensemble.next().inputs) == ["IN", "IN1"]


def test_outputs_that_a_step_leaves_out_are_left_out_and_the_others_are_given():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>x, MORE>OUT1\nb: IN>x -> OUT>OUT", outputs="OUT OUT1"))
    request = ensemble.ask()
    ensemble.answer("a", OUT=1)
    ensemble.answer("b", OUT=2)
    assert ensemble.outputs(request) == {"OUT": 2}


def test_what_a_step_leaves_out_is_absent_for_the_next_one():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>x, MORE>y\nb: IN>x, IN1>y -> OUT>OUT"))
    ensemble.ask()
    ensemble.answer("a", MORE=1)
    assert sorted(ensemble.next("b").inputs) == ["IN1"]


def test_requests_carry_what_the_outer_one_says():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT"))
    ensemble.ask(
        id="abc",
        parameters={"p": 1},
        deadline_ns=77,
        priority=3,
        timeout_us=500,
        correlation_id="s",
        flags=3,
        ancestors=("outer",),
    )
    inner = ensemble.next()
    assert (inner.id, inner.parameters, inner.deadline_ns, inner.priority, inner.timeout_us) == (
        "abc",
        {"p": 1},
        77,
        3,
        500,
    )
    assert (inner.correlation_id, inner.flags, inner.ancestors) == ("s", 3, ("outer", "e"))
    assert (inner.takes_stream, inner.flow) == (False, None)


@pytest.mark.parametrize(
    ("parameters", "inner", "outer"),
    [
        ({}, (5, 1), {"sequence_id": 5, "sequence_start": True, "sequence_end": False}),
        ({"other": 1}, (5, 1), {"sequence_id": 5, "sequence_start": True, "sequence_end": False}),
        ({"sequence_id": 9}, (9, 0), {"sequence_id": 9, "sequence_start": False, "sequence_end": False}),
        ({"sequence_end": True}, (5, 2), {"sequence_id": 5, "sequence_start": False, "sequence_end": True}),
        ({"sequence_id": "x"}, ("x", 0), {"sequence_id": "x", "sequence_start": False, "sequence_end": False}),
    ],
)
def test_a_response_may_say_of_which_sequence_it_is(parameters, inner, outer):
    ensemble = Ensemble(config_of(CHAIN))
    request = ensemble.ask(correlation_id=5, flags=1)
    ensemble.answer("a", parameters=parameters)
    for model in ("b", "c"):
        asked = ensemble.answer(model)
        assert (asked.correlation_id, asked.flags) == inner
    assert ensemble.channel.of(request).parameters == outer


@pytest.mark.parametrize("parameters", [{"sequence_id": 1.5}, {"sequence_id": True}, {"sequence_start": 1}])
def test_a_parameter_of_the_wrong_type_is_named(parameters):
    ensemble = Ensemble(config_of(CHAIN))
    request = ensemble.ask()
    ensemble.answer("a", parameters=parameters)
    (name,) = parameters
    assert f"in ensemble 'e', step 1 (model 'a'): the response's parameter '{name}'" in ensemble.channel.error_of(
        request
    )


def test_ids_beyond_a_signed_integer_wrap_as_parameters():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT"))
    request = ensemble.ask(correlation_id=2**64 - 1)
    ensemble.answer()
    assert ensemble.channel.of(request).parameters["sequence_id"] == -1


@pytest.mark.parametrize("error", [BackendError("broke"), InvalidArgumentError("no"), QueueFullError("Exceeds")])
def test_an_error_names_the_step_keeps_its_code_and_ends_the_others(error):
    ensemble = Ensemble(config_of(DIAMOND))
    request = ensemble.ask()
    ensemble.answer("a", OUT=1, MORE=1)
    (other,) = [each for each in ensemble.asked if each.model_name == "c"]
    ensemble.fail(error, "b")
    told = ensemble.channel.of(request).error
    assert (type(told), str(told)) == (type(error), f"in ensemble 'e', step 2 (model 'b'): {error}")
    assert str(error) in ("broke", "no", "Exceeds")  # the step's own error is not changed
    assert other.cancelled
    ensemble.reply(other, OUT=1)  # comes too late, and changes nothing
    assert ensemble.waiting == ["c"]
    assert len(ensemble.channel.replies) == 1
    assert ensemble.statistics.failures["OTHER"] == 2  # the step's and the ensemble's own


def test_a_code_that_only_the_error_has_stays_too():
    coded = NotFoundError("gone")
    coded.code = Code.DEADLINE_EXCEEDED
    ensemble = Ensemble(config_of(CHAIN))
    request = ensemble.ask()
    ensemble.fail(coded)
    assert ensemble.channel.of(request).error.code == Code.DEADLINE_EXCEEDED


def test_a_step_that_is_refused_at_once_fails_the_request():
    ensemble = Ensemble(config_of(DIAMOND))
    ensemble.refusal = lambda request: QueueFullError("full") if request.model_name == "c" else None
    request = ensemble.ask()
    ensemble.answer("a", OUT=1, MORE=1)
    assert ensemble.channel.error_of(request) == "in ensemble 'e', step 3 (model 'c'): full"
    assert all(each.cancelled for each in ensemble.asked)


def test_cancelling_cancels_what_is_in_flight_and_is_answered():
    ensemble = Ensemble(config_of(DIAMOND))
    request = ensemble.ask()
    ensemble.answer("a", OUT=1, MORE=1)
    request.cancel()
    assert [each.cancelled for each in ensemble.asked] == [True, True]
    assert isinstance(ensemble.channel.of(request).error, CancelledError)
    assert ensemble.statistics.failures["CANCELED"] == 1
    for each in ensemble.asked:
        refuse(each, CancelledError("it was told"))
    assert len(ensemble.channel.replies) == 1


def test_one_that_comes_cancelled_asks_no_step():
    ensemble = Ensemble(config_of(CHAIN))
    request = make_request(ensemble.channel, "e")
    request.cancel()
    ensemble.scheduler.enqueue(request)
    assert ensemble.asked == []
    assert isinstance(ensemble.channel.of(request).error, CancelledError)


def test_stop_fails_what_runs_and_takes_no_more():
    ensemble = Ensemble(config_of(CHAIN))
    request = ensemble.ask()
    ensemble.scheduler.stop()
    assert ensemble.channel.error_of(request).endswith("model 'e' was unloaded")
    assert ensemble.asked[0].cancelled
    with pytest.raises(UnavailableError):
        ensemble.ask()


def test_computing_counts_as_the_sum_over_the_steps():
    ensemble = Ensemble(config_of(CHAIN))
    start = ensemble.clock.now_ns()
    request = ensemble.ask(rows=2)
    for _ in range(3):
        inner = ensemble.next()
        ensemble.clock.advance(us=10)
        inner.settle()
        reply = Reply(inner, [tensor("OUT", 1, rows=2)])
        reply.timing = Stamps(0, 1, 3, 6)
        inner.channel.send((reply,))
    statistics = ensemble.statistics
    assert (statistics.inference_count, statistics.execution_count, statistics.success.count) == (2, 1, 1)
    assert (statistics.success.ns, statistics.queue.ns) == (ensemble.clock.now_ns() - start, 0)
    assert (statistics.compute_input.ns, statistics.compute_infer.ns, statistics.compute_output.ns) == (3, 6, 9)
    assert statistics.batches[2].compute_infer.ns == 6
    timing = ensemble.channel.of(request).timing
    assert (timing.input_ns, timing.infer_ns, timing.output_ns) == (3, 6, 9)


@pytest.mark.parametrize(
    ("outer", "step", "dims", "given", "seen"),
    [
        (8, 8, (2,), (3, 2), (3, 2)),
        (0, 0, (2,), (2,), (2,)),
        (0, 8, (2,), (2,), (1, 2)),  # what fits gets a batch dimension in front
        (0, 8, (2,), (3, 2), (3, 2)),  # the tensor is a batch already
        (8, 0, (2,), (1, 2), (2,)),  # a batch of one loses it
        (8, 0, (-1, 2), (1, 2), (1, 2)),  # unless the model takes the shape as it is
        (8, 0, (2,), (3, 2), (3, 2)),
    ],
)
def test_batch_dimensions_between_models_that_batch_and_models_that_do_not(outer, step, dims, given, seen):
    model = StepModel.of("a", max_batch_size=step, dims=dims)
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT", max_batch_size=outer, dims=(-1,) * len(given)), a=model)
    ensemble.ask(IN=np.zeros(given, np.float32))
    inner = ensemble.next()
    assert inner.inputs["IN"].shape == seen
    assert inner.batch_dim == seen[0]


@pytest.mark.parametrize(
    ("outer", "step", "dims", "made", "seen"),
    [
        (8, 0, (2,), (2,), (1, 2)),
        (0, 8, (2,), (1, 2), (2,)),
        (8, 8, (2,), (3, 2), (3, 2)),
        (0, 8, (2,), (3, 2), (3, 2)),
    ],
)
def test_batch_dimensions_of_outputs(outer, step, dims, made, seen):
    ensemble = Ensemble(
        config_of("a: IN>IN -> OUT>OUT", max_batch_size=outer, dims=dims), a=StepModel.of("a", max_batch_size=step)
    )
    request = ensemble.ask()
    ensemble.answer(OUT=np.zeros(made, np.float32))
    assert ensemble.channel.of(request).outputs[0].shape == seen


def test_the_ensembles_own_reshape_of_an_output_is_the_last_thing():
    config = config_of("a: IN>IN -> OUT>OUT", dims=(2, 2))
    config.output[0].reshape.shape.append(4)
    ensemble = Ensemble(config)
    request = ensemble.ask()
    ensemble.answer(OUT=np.zeros((3, 4), np.float32))
    assert ensemble.channel.of(request).outputs[0].shape == (3, 2, 2)


def test_inputs_that_share_no_first_dim_are_not_said_to_share_one():
    ensemble = Ensemble(config_of("a: IN>IN, IN1>IN2 -> OUT>OUT", inputs="IN IN2"))
    ensemble.ask(IN=np.zeros((0, 1), np.float32), IN2=np.zeros((3, 1), np.float32))
    assert ensemble.next().batch_dim == -1


def test_signatures_are_equal_for_equal_forms_only():
    ensemble = Ensemble(config_of("a: IN>IN, IN1>MAYBE -> OUT>OUT", inputs="IN MAYBE?"))
    same = [np.zeros((rows, 2), np.float32) for rows in (1, 3)]
    for array in same:
        ensemble.ask(IN=array)
    ensemble.ask(IN=np.zeros((1, 3), np.float32))
    ensemble.ask(IN=same[0], MAYBE=same[0])
    signatures = [request.signature for request in ensemble.asked]
    assert signatures[0] == signatures[1]
    assert len(set(signatures)) == 3


def test_outputs_that_are_not_owned_are_copied_and_owned_ones_are_not():
    lent = np.ones((1, 1), np.float32)
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>x, MORE>y\nb: IN>x, IN1>y -> OUT>OUT"))
    ensemble.ask()
    given = Tensor.from_numpy("MORE", np.full((1, 1), 5, np.float32), owned=True)
    ensemble.answer("a", OUT=Tensor.from_numpy("OUT", lent), MORE=given)
    lent[:] = 9
    inner = ensemble.next("b")
    assert inner.inputs["IN"].numpy()[0, 0] == 1
    assert inner.inputs["IN1"].buffer is given.buffer


def test_other_models_of_the_steps_make_another_graph():
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT", max_batch_size=0))
    ensemble.ask(IN=np.zeros(1, np.float32))
    assert ensemble.next().inputs["IN"].shape == (1, 1)
    ensemble.models = Models(a=StepModel.of("a", max_batch_size=0))
    ensemble.ask(IN=np.zeros(1, np.float32))
    assert ensemble.next().inputs["IN"].shape == (1,)
    ensemble.models = Models(a=None)  # it is being unloaded: what was known of it holds for what still reaches it
    ensemble.ask(IN=np.zeros(1, np.float32))
    assert ensemble.next().inputs["IN"].shape == (1,)


def test_replies_of_one_batch_ask_the_next_step_together_and_answers_leave_together():
    class Counted:
        def __init__(self):
            self.sends = []

        def send(self, replies):
            self.sends.append(len(replies))

    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT"))
    channel = Counted()
    for _ in range(3):
        ensemble.ask(channel=channel)
    batch = [ensemble.next() for _ in range(3)]
    for request in batch:
        request.settle()
    assert len({id(request.channel) for request in batch}) == 1
    batch[0].channel.send([Reply(request, [tensor("OUT", 1)]) for request in batch])
    assert channel.sends == [3]


def test_absent_outputs_are_told_at_the_first_verbosity():
    log, lines = kept_log(verbose_level=1)
    ensemble = Ensemble(config_of("a: IN>IN -> OUT>OUT, MORE>OUT1", outputs="OUT OUT1"), log=log)
    ensemble.ask()
    ensemble.answer(OUT=1)
    assert "Composing models did not output tensor OUT1" in lines.text
