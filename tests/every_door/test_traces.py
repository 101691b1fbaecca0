"""Traces: what a request leaves in the trace file, by whatever door it came and whatever became of it."""

import json
import urllib.request

import numpy as np
import pytest

from tests.every_door.doors import DOORS, RefusedError, open_door
from tests.every_door.served import Gated
from tests.every_door.stream_doors import Events, Grpc
from tests.every_door.test_cancellation import by_a_deadline, by_cancelling_grpc, by_closing_http
from tests.every_door.traced import COMPUTED, GRPC, HTTP, INNER, SERVED, Traced, read
from tests.every_door.watched import WatchedQueue
from tests.models.repository import write_config, write_python_model

IDENTITY = """
    backend: "identity"
    max_batch_size: 4
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""
ENSEMBLE = """
    platform: "ensemble"
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 2 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 2 ] } ]
    ensemble_scheduling { step [
        { model_name: "id" model_version: -1
          input_map { key: "INPUT0" value: "IN" } output_map { key: "OUTPUT0" value: "x" } },
        { model_name: "id" model_version: -1
          input_map { key: "INPUT0" value: "x" } output_map { key: "OUTPUT0" value: "OUT" } }
    ] }
"""
CALLER = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            return [self.one(request) for request in requests]

        def one(self, request):
            assert request.trace().get_context() is None
            given = request.inputs()[0].as_numpy()
            tensor = pb_utils.Tensor("IN", given)
            for more in ({"trace": request.trace()}, {}):
                inner = pb_utils.InferenceRequest(
                    model_name="ens", requested_output_names=["OUT"], inputs=[tensor], request_id="inner", **more
                )
                response = inner.exec()
                assert not response.has_error(), response.error().message()
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", given)])
"""
CALLER_CONFIG = """
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 2 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 2 ] } ]
    parameters { key: "execution" value { string_value: "%s" } }
"""
COUNT = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for index in range(int(request.inputs()[0].as_numpy().ravel()[0])):
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([index]))]))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
COUNT_CONFIG = """
    model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
NETWORK = [name for name in DOORS if name != "in-process"]
ROWS = np.array([[1, 2.5]], np.float32)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    write_config(folder, "id", IDENTITY)
    write_config(folder, "ens", ENSEMBLE)
    (folder / "id" / "1").mkdir()
    (folder / "ens" / "1").mkdir()
    for form in ("inline", "isolated"):
        write_python_model(folder, f"caller_{form}", CALLER_CONFIG % form, CALLER)
    write_python_model(folder, "count", COUNT_CONFIG, COUNT)
    return folder


@pytest.fixture
def traced(repository, tmp_path):
    made = []

    def make(*settings, **options):
        made.append(Traced(repository, tmp_path / "trace.json", *settings, **options))
        return made[-1]

    yield make
    for each in made:
        each.server.stop()


def ask(traced, name, model="id", inputs=None, **options):
    door = open_door(name, traced.server)
    try:
        return door.infer(model, inputs or {"INPUT0": ROWS}, **options)
    finally:
        door.close()


@pytest.mark.parametrize("name", NETWORK)
def test_the_way_of_a_request(traced, name):
    server = traced()
    ask(server, name, id="r1")
    (request,) = server.requests().values()
    assert request.names == (GRPC if "grpc" in name else HTTP)
    assert (request.number, request.model, request.id, request.parent) == (1, "id", "r1", None)


def test_calls_of_the_same_process_are_not_traced(traced):
    server = traced()
    ask(server, "in-process")
    assert server.requests() == {}


@pytest.mark.parametrize("name", NETWORK)
def test_tensors(traced, name):
    server = traced("level=TENSORS")
    ask(server, name)
    (request,) = server.requests().values()
    assert request.tensors == [
        ("TENSOR_QUEUE_INPUT", "INPUT0", "1,2.5", "1,2", "FP32"),
        ("TENSOR_BACKEND_OUTPUT", "OUTPUT0", "1,2.5", "1,2", "FP32"),
    ]
    assert SERVED[0] in request.names


def test_one_in_so_many_whichever_door_they_come_by(traced):
    server = traced("rate=3")
    for number in range(7):
        ask(server, NETWORK[number % len(NETWORK)], id=str(number))
    assert [request.id for request in server.requests().values()] == ["2", "5"]


def test_a_count(traced):
    server = traced("count=2")
    for _ in range(4):
        ask(server, "http-json")
    server.server.stop()
    assert not server.file.exists()
    assert list(read(server.file.with_name("trace.json.0"))) == [1, 2]


@pytest.mark.parametrize("name", NETWORK)
def test_steps_of_an_ensemble(traced, name):
    server = traced("level=TENSORS")
    ask(server, name, "ens", {"IN": ROWS}, id="r")
    ensemble, first, second = server.requests().values()
    assert [(each.model, each.parent, each.id) for each in (ensemble, first, second)] == [
        ("ens", None, "r"),
        ("id", 1, "r"),
        ("id", 1, "r"),
    ]
    assert first.names == second.names == INNER
    assert not {*COMPUTED} & {*ensemble.names}
    assert [each[:3] for each in ensemble.tensors] == [
        ("TENSOR_QUEUE_INPUT", "IN", "1,2.5"),
        ("TENSOR_BACKEND_OUTPUT", "OUT", "1,2.5"),
    ]


@pytest.mark.parametrize("form", ["inline", "isolated"])
@pytest.mark.parametrize("name", NETWORK)
def test_calls_of_a_model_that_passes_its_trace_on(traced, name, form):
    server = traced()
    ask(server, name, f"caller_{form}", {"IN": ROWS})
    caller, ensemble, *steps = server.requests().values()
    assert (ensemble.model, ensemble.parent, ensemble.id) == ("ens", caller.number, "inner")
    assert [(step.model, step.parent) for step in steps] == [
        ("id", ensemble.number)
    ] * 2  # the other call is not traced
    assert {*COMPUTED} < {*caller.names}


@pytest.mark.parametrize("name", NETWORK)
def test_what_is_refused_is_traced_as_far_as_it_came(traced, name):
    server = traced("level=TENSORS")
    with pytest.raises(RefusedError):
        ask(server, name, inputs={"INPUT0": np.zeros((1, 3), np.float32)}, id="wrong")
    (request,) = server.requests().values()
    assert (request.model, request.id, request.tensors) == ("id", "wrong", [])
    kept = ("REQUEST_START", "INFER_RESPONSE_COMPLETE", "REQUEST_END")
    assert [stamp for stamp in request.names if not stamp.startswith(("HTTP", "GRPC"))] == [*kept]
    assert request.names[-1].endswith("_SEND_END")


def test_a_body_that_is_no_request_has_the_stamps_of_the_door(traced):
    server = traced()
    url = f"http://127.0.0.1:{server.server.ports['http']}/v2/models/id/infer"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url, b"{", timeout=10)
    (request,) = server.requests().values()
    assert request.names == ["HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END"]


@pytest.mark.parametrize("way", [by_closing_http, by_cancelling_grpc, by_a_deadline])
def test_what_is_cancelled_in_the_queue(tmp_path, way):
    file = tmp_path / "trace.json"
    settings = (f"triton,file={file}", "level=TIMESTAMPS", "rate=1")
    config = "max_batch_size: 1 dynamic_batching { }"
    served = Gated(tmp_path, config, (), "-1", "inline", {"trace_config": settings})
    try:
        watched = WatchedQueue(served.model)
        served.occupy(1)
        watched.wait_queued()
        way(served, watched)
        watched.wait_refused()
    finally:
        served.close()
    (request,) = read(file).values()
    assert "QUEUE_START" in request.names
    assert "REQUEST_END" in request.names
    assert not {*COMPUTED} & {*request.names}


@pytest.mark.parametrize("door", [Grpc, Events])
def test_a_stream_has_a_stamp_for_each_response(traced, door):
    server = traced("level=TENSORS")
    assert len(list(door(server.server).stream("count", {"IN": np.float32([3])}, id="s"))) == 3
    (request,) = server.requests().values()
    assert request.names.count("INFER_RESPONSE_COMPLETE") == 3
    assert [data for activity, _, data, *_ in request.tensors if activity == "TENSOR_BACKEND_OUTPUT"] == ["0", "1", "2"]
    assert request.names[0].startswith("GRPC" if door is Grpc else "HTTP")
    assert request.names[-1].endswith("_SEND_END")
    assert {*COMPUTED} < {*request.names}


def test_generate(traced):
    server = traced()
    url = f"http://127.0.0.1:{server.server.ports['http']}/v2/models/count/generate"
    body = json.dumps({"IN": 1.0, "id": "g"}).encode()
    assert json.load(urllib.request.urlopen(url, body, timeout=10))["OUT"] == 0.0
    (request,) = server.requests().values()
    assert (request.model, request.id) == ("count", "g")
    assert sorted(request.names) == sorted(HTTP)  # the response leaves while its model still runs


def test_a_model_may_have_settings_of_its_own(traced):
    server = traced("level=OFF")
    url = f"http://127.0.0.1:{server.server.ports['http']}/v2/models/id/trace/setting"
    body = json.dumps({"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}).encode()
    assert json.load(urllib.request.urlopen(url, body, timeout=10))["trace_level"] == ["TIMESTAMPS"]
    ask(server, "http-binary", "ens", {"IN": ROWS})
    ask(server, "http-binary")
    assert [request.model for request in server.requests().values()] == ["id"]
