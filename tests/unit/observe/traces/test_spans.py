"""Traces as spans of OpenTelemetry."""

import pytest

from charonia.core.errors import BackendError
from charonia.observe.traces.context import context_of_headers
from tests.unit.observe.traces.test_context import PARENT
from tests.unit.observe.traces.trace_world import World

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind

from charonia.observe.traces.spans import spans_of

RESOURCE = Resource({"service.name": "test"})


def spans(trace):
    return {span.name: span for span in spans_of(trace, RESOURCE)}


def events(span):
    return [event.name for event in span.events]


def tree(trace):
    """(name, its parent's name) of each span."""
    all_ = list(spans_of(trace, RESOURCE))
    names = {span.context.span_id: span.name for span in all_}
    return [(span.name, names.get(span.parent.span_id) if span.parent else None) for span in all_]


def test_a_request_is_three_spans():
    trace = World(spans=True).traced(id="r1")
    assert tree(trace) == [("compute", "m"), ("m", "InferRequest"), ("InferRequest", None)]
    found = spans(trace)
    assert events(found["compute"]) == ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]
    assert events(found["m"]) == ["REQUEST_START", "QUEUE_START", "REQUEST_END"]
    assert events(found["InferRequest"]) == [
        "HTTP_RECV_START",
        "HTTP_RECV_END",
        "INFER_RESPONSE_COMPLETE",
        "HTTP_SEND_START",
        "HTTP_SEND_END",
    ]
    assert dict(found["m"].attributes) == {
        "triton.model_name": "m",
        "triton.model_version": 3,
        "triton.trace_id": 1,
        "triton.trace_parent_id": 0,
        "triton.request_id": "r1",
    }
    assert {span.kind for span in found.values()} == {SpanKind.SERVER}
    assert {span.resource.attributes["service.name"] for span in found.values()} == {"test"}
    assert len({span.context.trace_id for span in found.values()}) == 1


def test_times_are_those_of_the_day():
    trace = World(spans=True).traced()
    root = spans(trace)["InferRequest"]
    assert root.start_time == trace.wall_ns + 900
    assert root.end_time == trace.wall_ns + 2007
    assert root.events[0].timestamp == root.start_time


def test_a_step_lies_in_its_ensemble():
    world = World(spans=True)
    trace, outer, step = world.trace(), world.request("e"), world.request("s")
    trace.begin(outer)
    outer.trace.follow(step, is_step=True)
    world.execute(step)
    world.execute(outer)
    trace.left(None)
    assert tree(trace) == [("e", "InferRequest"), ("compute", "s"), ("s", "e"), ("InferRequest", None)]
    assert spans(trace)["s"].attributes["triton.trace_parent_id"] == 1


def test_the_client_is_the_parent():
    world = World(spans=True)
    trace = world.trace("GRPC", context_of_headers(PARENT, "a=1"))
    trace.left(None)
    (root,) = spans_of(trace, RESOURCE)
    assert root.parent.span_id == 0xB7AD6B7169242424
    assert root.parent.is_remote
    assert root.context.trace_id == root.parent.trace_id
    assert root.context.trace_state["a"] == "1"
    assert events(root) == ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END"]


def test_a_failure_is_told():
    world = World(spans=True)
    trace, request = world.trace(), world.request()
    trace.begin(request)
    world.execute(request, error=BackendError("broken"))
    trace.left(None)
    assert [(name, span.status.description) for name, span in spans(trace).items()] == [
        ("compute", None),
        ("m", "broken"),
        ("InferRequest", "broken"),
    ]


def test_a_backends_own_spans():
    world = World(spans=True)
    trace, request = world.trace(), world.request()
    trace.begin(request)
    notes = ["A_START", "A_END", "MOMENT", "B_START", "INSIDE", "C_START", "C_END", "B_END", "LOST_START"]
    for ns, name in enumerate(notes, 1100):
        request.trace.activity(name, ns)
    world.execute(request)
    trace.left(None)
    assert tree(trace) == [
        ("compute", "m"),
        ("A", "m"),
        ("C", "B"),
        ("B", "m"),
        ("LOST", "m"),
        ("m", "InferRequest"),
        ("InferRequest", None),
    ]
    found = spans(trace)
    assert events(found["B"]) == ["B_START", "INSIDE", "B_END"]
    assert events(found["m"]) == ["REQUEST_START", "QUEUE_START", "MOMENT", "REQUEST_END"]
