"""Triton's records: one array of objects, by which its own tools and others read a trace."""

import json

import numpy as np

from charonia.observe.traces.as_json import records_of
from charonia.observe.traces.setting import Level
from charonia.observe.traces.tensors import text_of
from tests.unit.observe.traces.trace_world import World, tensor


def records(trace):
    return json.loads(b"[" + records_of(trace) + b"]")


def stamps(trace, number=1):
    found = [each for each in records(trace) if each["id"] == number and "timestamps" in each]
    return [(stamp["name"], stamp["ns"]) for each in found for stamp in each["timestamps"]]


def test_the_way_of_a_request():
    trace = World().traced(id="r1")
    assert records_of(trace).startswith(b'{"id":1,"timestamps":[{"name":"HTTP_RECV_START","ns":900}]},')
    assert {"id": 1, "model_name": "m", "model_version": 3, "request_id": "r1"} in records(trace)
    assert stamps(trace) == [
        ("HTTP_RECV_START", 900),
        ("HTTP_RECV_END", 950),
        ("REQUEST_START", 1000),
        ("QUEUE_START", 1010),
        ("COMPUTE_START", 1020),
        ("COMPUTE_INPUT_END", 1025),
        ("COMPUTE_OUTPUT_START", 1035),
        ("COMPUTE_END", 1050),
        ("INFER_RESPONSE_COMPLETE", 2000),
        ("REQUEST_END", 2000),
        ("HTTP_SEND_START", 2000),
        ("HTTP_SEND_END", 2007),
    ]


def test_over_grpc():
    world = World()
    trace = world.trace("GRPC")
    trace.left((5, 6))
    assert [name for name, _ in stamps(trace)] == [
        "GRPC_WAITREAD_START",
        "GRPC_WAITREAD_END",
        "GRPC_SEND_START",
        "GRPC_SEND_END",
    ]


def test_those_that_it_leads_to_name_their_parent():
    world = World()
    trace, outer, step = world.trace(), world.request("e", id="r"), world.request("s")
    trace.begin(outer)
    outer.trace.follow(step, is_step=True)
    world.execute(step)
    world.execute(outer, version="1")
    assert {"id": 2, "model_name": "s", "model_version": 3, "parent_id": 1} in records(trace)
    assert "INFER_RESPONSE_COMPLETE" not in dict(stamps(trace, 2))
    assert "COMPUTE_START" not in dict(stamps(trace, 1))


def test_tensors():
    world = World(Level.TENSORS)
    trace = world.traced(tensor("Y", 1.5, 2, dtype=np.float32), inputs={"X": tensor("X", 1, 2)})
    assert records(trace) == [
        {"id": 1, "model_name": "m", "model_version": 3},
        {
            "id": 1,
            "activity": "TENSOR_QUEUE_INPUT",
            "tensor": {"name": "X", "data": "1,2", "shape": "2", "dtype": "INT32"},
        },
        {
            "id": 1,
            "activity": "TENSOR_BACKEND_OUTPUT",
            "tensor": {"name": "Y", "data": "1.5,2", "shape": "2", "dtype": "FP32"},
        },
    ]


def test_a_backends_own_notes_and_names_that_need_quotes():
    world = World()
    trace, request = world.trace(), world.request('a"\n', id="\ud800")
    trace.begin(request)
    request.trace.activity("CACHE_LOOKUP_START", 1234)
    world.execute(request)
    assert ("CACHE_LOOKUP_START", 1234) in stamps(trace)
    assert records(trace)[2]["model_name"] == 'a"\n'


def test_numbers_of_every_kind():
    assert text_of(tensor("x", True, False, dtype=np.bool_)) == "1,0"
    assert text_of(tensor("x", -1, 2**63 - 1, dtype=np.int64)) == "-1,9223372036854775807"
    assert text_of(tensor("x", 0.1, 1, np.nan, dtype=np.float32)) == "0.1,1,nan"
    assert text_of(tensor("x", 0.5, dtype=np.float16)) == "0.5"
    assert text_of(tensor("x", b"ab", b"\xff", dtype=np.object_)) == '"ab","\\xff"'
    assert text_of(tensor("x", dtype=np.float64)) == ""
