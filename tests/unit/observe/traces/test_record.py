"""What is noted while a request is served, and when a trace is done."""

import numpy as np
import pytest

from charonia.core.errors import BackendError, CancelledError
from charonia.core.request import Reply, refuse
from charonia.core.tensor import Tensor
from charonia.core.unread import UnreadBuffer
from charonia.observe.traces.setting import Level
from tests.unit.observe.traces.trace_world import World, tensor


@pytest.fixture
def world():
    return World()


def test_the_replies_arrive_as_ever(world):
    request = world.request()
    world.trace().begin(request)
    world.execute(request, (tensor("Y", 1),))
    assert world.channel.of(request).outputs[0].name == "Y"


def test_a_trace_is_done_when_the_front_end_has_left_and_all_is_answered(world):
    trace, request = world.trace(), world.request()
    trace.begin(request)
    trace.left((1, 2))
    assert not world.done
    world.execute(request)
    assert world.done == [trace]
    assert trace.sent_ns == (1, 2)


def test_or_the_other_way_round(world):
    trace, request = world.trace(), world.request()
    trace.begin(request)
    world.execute(request)
    assert not world.done
    trace.left(None)
    assert world.done == [trace]


def test_a_call_that_became_no_request_is_done_when_it_is_left(world):
    trace = world.trace()
    trace.left((1, 2))
    assert world.done == [trace]


def test_what_it_leads_to_belongs_to_it(world):
    trace, outer = world.trace(), world.request("ensemble")
    trace.begin(outer)
    step = world.request("step")
    outer.trace.follow(step, is_step=True)
    world.execute(outer)
    trace.left(None)
    assert not world.done, "the step is under way"
    world.execute(step)
    assert world.done == [trace]
    first, second = trace.requests
    assert (first.number, second.number, second.parent) == (1, 2, first)
    assert first.stamps is None, "an ensemble executes nothing itself"
    assert second.stamps is not None


def test_a_model_that_calls_others_executes_itself_too(world):
    trace, outer = world.trace(), world.request("caller")
    trace.begin(outer)
    called = world.request("other")
    outer.trace.follow(called)
    world.execute(called)
    world.execute(outer)
    assert [each.stamps is not None for each in trace.requests] == [True, True]


def test_several_responses(world):
    trace, request = world.trace(), world.request()
    trace.begin(request)
    for value in (1, 2):
        world.execute(request, (tensor("Y", value),), final=False)
    world.execute(request, has_response=False)
    trace.left(None)
    assert len(trace.completed_ns) == 2
    assert len(world.done) == 1


@pytest.mark.parametrize("error", [BackendError("broken"), CancelledError("given up")])
def test_failures(world, error):
    trace, request = world.trace(), world.request()
    trace.begin(request)
    world.execute(request, error=error)
    trace.left(None)
    (noted,) = trace.requests
    assert noted.failure == str(error)
    assert len(trace.completed_ns) == 1
    assert noted.stamps is not None


def test_a_request_that_was_refused_was_never_queued(world):
    trace, request = world.trace(), world.request()
    trace.begin(request)
    refuse(request, BackendError("no place"))
    (noted,) = trace.requests
    assert (noted.queue_ns, noted.stamps, noted.version) == (0, None, -1)
    assert noted.end_ns


def test_tensors_are_kept_as_they_were():
    world = World(Level.TENSORS)
    array = np.array([1, 2], np.int32)
    trace, request = world.trace(), world.request(inputs={"X": Tensor.from_numpy("X", array)})
    trace.begin(request)
    outputs = np.array([3], np.int32)
    world.execute(request, (Tensor.from_numpy("Y", outputs),))
    array[:] = outputs[:] = 0
    noted = trace.requests[0].tensors
    assert [(each.activity, each.tensor.name, each.tensor.numpy().tolist()) for each in noted] == [
        ("TENSOR_QUEUE_INPUT", "X", [1, 2]),
        ("TENSOR_BACKEND_OUTPUT", "Y", [3]),
    ]


def test_tensors_of_regions_are_read_when_they_are_noted():
    region = np.array([1, 2], np.uint8)

    def fill(target):
        target[:] = region

    world = World(Level.TENSORS)
    trace, request = world.trace(), world.request(inputs={"X": Tensor("X", "UINT8", (2,), UnreadBuffer(fill, 2))})
    trace.begin(request)
    region[:] = 9
    world.execute(request, ())
    assert [each.tensor.numpy().tolist() for each in trace.requests[0].tensors] == [[1, 2]]


def test_memory_of_a_device_that_can_not_be_read_costs_the_tensor_only():
    class Lost:
        device, nbytes, owned = "gpu:0", 4, True

        def host(self):
            raise OSError("gone")

    world = World(Level.TENSORS)
    trace, request = world.trace(), world.request(inputs={"X": Tensor("X", "FP32", (1,), Lost())})
    trace.begin(request)
    world.execute(request, (tensor("Y", 3),))
    assert [each.tensor.name for each in trace.requests[0].tensors] == ["Y"]


def test_what_a_python_model_gets_of_it():
    plain, spans = World(), World(spans=True)
    for world in (plain, spans):
        request = world.request()
        world.trace().begin(request)
        world.handle = request.trace.handle
    assert plain.handle == (1, None)
    number, context = spans.handle
    assert number == 1
    assert '"traceparent": "00-' in context


def test_a_request_that_is_not_traced_has_no_trace(world):
    request = world.request()
    assert request.trace is None
    request.channel.send((Reply(request),))
    assert not world.done
