"""Answers that are not Triton's, on purpose, and short phrases of Triton's that clients look for."""

import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.grpc import service_pb2

from tests.every_door.raw import RawGrpc, RawHttp, one_input
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config

MANY = 40


def lay_out(repository):
    for datatype in ("FP32", "FP16", "BF16", "BYTES"):
        onnx_models.save(onnx_models.identity(datatype, ["length"]), repository, datatype)
        write_config(repository, datatype, "max_batch_size: 0")


@pytest.fixture
def http(server):
    opened = RawHttp(server)
    yield opened
    opened.close()


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_may_be_json_numbers(http, datatype):
    answer = http.infer(datatype, one_input([1.5, -2, 0.25], datatype=datatype))
    assert (answer.status_code, answer.json()["outputs"][0]["data"]) == (200, [1.5, -2, 0.25])


@pytest.mark.parametrize(
    ("model", "body", "status"),
    [
        ("FP32", b"{", 400),
        ("FP32", b'{"inputs":[]}', 400),
        ("nope", b'{"inputs":[]}', 404),
        ("FP32/versions/7", b'{"inputs":[]}', 404),
    ],
)
def test_errors_of_inference_are_json(http, model, body, status):
    answer = http.post(model, body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]


def test_an_unknown_model_is_not_found_in_the_words_that_clients_know(http, server):
    for answer in (http.post("nope", b'{"inputs":[]}'), http.client.get("/v2/models/nope/stats")):
        assert answer.json()["error"].startswith("Request for unknown model: 'nope' is not found")
    said = http.client.get("/v2/models/FP32/versions/7/config").json()["error"]
    assert said.startswith("Request for unknown model: 'FP32' version 7 is not found")
    stub = RawGrpc(server)
    assert not stub.stub.ModelReady(service_pb2.ModelReadyRequest(name="nope"), timeout=PATIENCE_S).ready
    stub.close()


@pytest.mark.parametrize(
    ("datatype", "data", "phrase"),
    [
        ("BYTES", ["a", "b"], "class result not available for output due to unsupported type 'BYTES'"),
        ("FP32", [0.5] * 1_000_001, "classification output tensor too large"),
    ],
)
def test_classes_of_what_can_not_be_classified(http, datatype, data, phrase):
    outputs = [{"name": "OUTPUT0", "parameters": {"classification": 3}}]
    answer = http.infer(datatype, one_input(data, datatype=datatype, outputs=outputs))
    assert answer.status_code == 400
    assert phrase in answer.json()["error"]
    assert "OUTPUT0" in answer.json()["error"]


@pytest.mark.parametrize(("model", "refused"), [("FP32", False), ("nope", True)])
def test_a_stream_answers_all_that_was_sent_before_it_is_closed(server, model, refused):
    """Many at once, then the client's end of the stream at the first answer: all are answered, in order."""
    answers: queue.Queue[tuple[grpcclient.InferResult | None, Exception | None]] = queue.Queue()
    tensor = grpcclient.InferInput("INPUT0", [2], "FP32")
    tensor.set_data_from_numpy(np.array([1.5, -2], np.float32))
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in range(MANY):
            client.async_stream_infer(model, [tensor], request_id=str(number))
        first = answers.get(timeout=PATIENCE_S)
        client.stop_stream()
    told = [first, *(answers.get_nowait() for _ in range(MANY - 1))]
    assert [error is not None for _, error in told] == [refused] * MANY
    assert refused or [result.get_response().id for result, _ in told] == [str(number) for number in range(MANY)]
