"""A trace file for trace viewers: the trace event format, field by field."""

import json

import pytest

from charonia.cli.trace import run_convert
from charonia.core.errors import InvalidArgumentError
from charonia.observe.traces.as_json import records_of
from charonia.observe.traces.setting import Level
from charonia.tools.trace.convert import converted
from tests.unit.observe.traces.trace_world import World, tensor


def records(*traces):
    return json.loads(b"[" + b",".join(records_of(trace) for trace in traces) + b"]")


def ensemble():
    world = World(Level.TIMESTAMPS | Level.TENSORS)
    trace, outer, step = world.trace(), world.request("e", id="r"), world.request("s")
    trace.begin(outer)
    outer.trace.follow(step, is_step=True)
    world.execute(step, (tensor("Y", 7),))
    world.execute(outer)
    trace.left((world.clock.now_ns(), world.clock.now_ns() + 500))
    return trace


@pytest.fixture
def events():
    return converted(records(ensemble()))["traceEvents"]


def named(events, name):
    (event,) = [event for event in events if event["name"] == name and event["ph"] != "M"]
    return event


def test_every_event_has_what_its_kind_needs(events):
    needed = {
        "M": {"name", "pid", "tid", "args"},
        "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
        "i": {"name", "cat", "ts", "s", "pid", "tid", "args"},
        "s": {"name", "cat", "id", "ts", "pid", "tid"},
        "f": {"name", "cat", "id", "ts", "bp", "pid", "tid"},
    }
    assert {event["ph"] for event in events} == set(needed)
    for event in events:
        assert set(event) - {"ph"} == needed[event["ph"]]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event.get("dur", 0) >= 0


def test_slices_lie_in_one_another(events):
    call, request, step = named(events, "call"), named(events, "e v3"), named(events, "s v3")
    compute, infer = named(events, "compute"), named(events, "compute infer")
    assert (call["tid"], request["tid"], step["tid"], compute["tid"]) == (1, 1, 2, 2)
    for inner, outer in ((request, call), (compute, step), (infer, compute)):
        assert outer["ts"] <= inner["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-6
    assert (infer["ts"], infer["dur"]) == (1.025, 0.01)


def test_arrows_and_arguments(events):
    start, end = [event for event in events if event["ph"] in "sf"]
    assert (start["tid"], end["tid"], start["id"], end["id"]) == (1, 2, 2, 2)
    assert named(events, "e v3")["args"]["request_id"] == "r"
    assert named(events, "s v3")["args"]["TENSOR_BACKEND_OUTPUT Y"]["data"] == "7"


def test_tracks_are_named(events):
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {0: "Charonia", 1: "1: e v3", 2: "2: s v3, of 1"}


def test_a_call_that_became_no_request():
    world = World()
    trace = world.trace("GRPC")
    trace.left((1000, 1100))
    events = converted(records(trace))["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["call", "receive", "send"]


@pytest.mark.parametrize("broken", [{}, [1], [{"timestamps": []}], [{"id": 1, "timestamps": [{"name": "x"}]}]])
def test_what_is_no_trace_file(broken):
    with pytest.raises(InvalidArgumentError):
        converted(broken)


def test_by_the_command(tmp_path, capsys):
    source, target = tmp_path / "t.json", tmp_path / "out.json"
    source.write_text(json.dumps(records(ensemble())))
    assert run_convert(str(source), str(target)) == 0
    assert json.loads(target.read_text())["traceEvents"]
    source.write_text("{")
    assert run_convert(str(source), "-") == 1
    assert run_convert(str(tmp_path / "none"), "-") == 1
    said = capsys.readouterr().err
    assert "it is not JSON" in said
    assert "No such file" in said
