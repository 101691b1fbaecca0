"""Lines about requests, and levels of one model, in the log of a real server."""

import http.client
import json
import re

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from tests.models import onnx_models

TALKER = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        pb_utils.Logger.log_info("talker says something")
        pb_utils.Logger.log_verbose("talker says more")
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)]) for value in inputs]
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    models = folder / "models"
    onnx_models.save(onnx_models.add_sub(), models, "add_sub", 1)
    (models / "talker" / "1").mkdir(parents=True)
    (models / "talker" / "1" / "model.py").write_text(TALKER)
    (models / "talker" / "config.pbtxt").write_text(
        """
        backend: "python"
        input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
        output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
        parameters { key: "execution" value { string_value: "inline" } }
        """  # a process of its own may log after it has answered
    )
    path = folder / "server.log"
    explicit = {"model_control_mode": "explicit", "load_model": ["*"]}
    with Server(models, http_port=0, grpc_port=0, log_file=str(path), log_info=False, **explicit) as server:
        yield server, path


@pytest.fixture
def written(serving):
    """What the log holds since the test began."""
    start = serving[1].stat().st_size
    return lambda: serving[1].read_bytes()[start:].decode()


@pytest.fixture
def post(serving):
    def ask(path, **body):
        connection = http.client.HTTPConnection("127.0.0.1", serving[0].ports["http"], timeout=10)
        connection.request("POST", path, json.dumps(body))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    yield ask
    ask("/v2/logging", log_verbose_level=0)


def ask_both(server, model, names, value, datatype, **options):
    for module, port in ((httpclient, "http"), (grpcclient, "grpc")):
        client = module.InferenceServerClient(f"127.0.0.1:{server.ports[port]}")
        tensors = [module.InferInput(name, list(value.shape), datatype) for name in names]
        for tensor in tensors:
            tensor.set_data_from_numpy(value)
        client.infer(model, tensors, **options)
        client.close()


def reload(server, *models):
    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client:
        for model in models:
            client.unload_model(model)
            client.load_model(model)


def test_a_line_for_each_request_and_answer(serving, written, post):
    post("/v2/logging", log_verbose_level=1)
    secret = np.full((1, 16), 1234567.0, np.float32)
    ask_both(serving[0], "add_sub", ["INPUT0", "INPUT1"], secret, "FP32", request_id="seven")
    text = written()
    for door in ("http", "grpc"):
        tensors = "INPUT0 FP32 [1,16] 64 bytes, INPUT1 FP32 [1,16] 64 bytes"
        assert f"{door} request 'seven' to model 'add_sub': inputs {tensors}" in text
    answers = (
        r"answer to request 'seven' to model 'add_sub' version 1: OK after \d+ us: outputs OUTPUT0 FP32 \[1,16\] 64"
    )
    assert len(re.findall(answers, text)) == 2
    assert "1234567" not in text
    assert "2469134" not in text


def test_requests_that_are_wrong_in_themselves(serving, written, post):
    post("/v2/logging", log_verbose_level=1)
    body = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": ["SECRET"]}], "id": "x"}
    assert "error" in post("/v2/models/add_sub/infer", **body)
    assert "error" in post("/v2/models/nope/infer", **body)
    text = written()
    assert re.search(r"http request '\w*' to model 'add_sub': INVALID_ARGUMENT after \d+ us", text)
    assert re.search(r"http request '\w*' to model 'nope': NOT_FOUND after \d+ us", text)
    assert "SECRET" not in text


def test_what_a_client_writes_stays_in_its_line(serving, written, post):
    post("/v2/logging", log_verbose_level=1)
    value = np.zeros((1, 16), np.float32)
    hostile = "\nI1130 00:00:00.000000 1 forged.cc:1] \x1b[31m"
    client = httpclient.InferenceServerClient(f"127.0.0.1:{serving[0].ports['http']}")
    tensor = httpclient.InferInput(hostile, [1, 16], "FP32").set_data_from_numpy(value)
    with pytest.raises(InferenceServerException):
        client.infer("add_sub", [tensor], request_id=hostile + "x" * 1_000_000)
    client.close()
    lines = written().splitlines()
    assert lines
    assert not [line for line in lines if "forged" in line.split("]")[0]]
    assert all(line.isprintable() and len(line) < 2000 for line in lines)


def test_nothing_without_being_asked(serving, written):
    ask_both(serving[0], "add_sub", ["INPUT0", "INPUT1"], np.zeros((1, 16), np.float32), "FP32")
    assert written() == ""


def test_levels_of_one_model(serving, written, post):
    server = serving[0]
    levels = post("/v2/models/talker/logging", log_info=True, log_verbose_level=1)
    assert levels == {"log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 1}
    ask_both(server, "add_sub", ["INPUT0", "INPUT1"], np.zeros((1, 16), np.float32), "FP32")
    assert written() == ""
    ask_both(server, "talker", ["IN"], np.zeros(1, np.int32), "INT32")
    text = written()
    for words in (
        "talker says something",
        "talker says more",
        "request '' to model 'talker': inputs IN INT32 [1] 4 bytes",
    ):
        assert text.count(words) == 2
    reload(server, "talker", "add_sub")
    text = written()
    assert "successfully loaded 'talker'" in text
    assert "successfully loaded 'add_sub'" not in text
    post("/v2/models/talker/logging", log_info=None, log_verbose_level=None)
    ask_both(server, "talker", ["IN"], np.zeros(1, np.int32), "INT32")
    assert written() == text
