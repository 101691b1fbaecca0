"""Headers that become parameters, as a model behind each protocol sees them."""

import http.client
import json
from queue import SimpleQueue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from tests.models.repository import write_config, write_python_model

PATIENCE_S = 20.0
TELLS = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([request.parameters()], np.object_))])
            for request in requests
        ]
"""
IN_OUT = """
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] } ]
"""
STEP = """
step [ {
    model_name: "tells" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }
} ]
"""
HEADERS = {"X-User": "alice", "x-tenant": "snails", "other": "no"}
SEEN = {"x-user": "alice", "x-tenant": "snails"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forwarding")
    write_python_model(
        folder, "tells", f'{IN_OUT} parameters {{ key: "execution" value {{ string_value: "inline" }} }}', TELLS
    )
    write_config(folder, "whole", f'platform: "ensemble" {IN_OUT} ensemble_scheduling {{ {STEP} }}')
    (folder / "whole" / "1").mkdir(exist_ok=True)
    pattern = {f"{door}_header_forward_pattern": "^x-|priority" for door in ("http", "grpc")}
    with Server(folder, http_port=0, grpc_port=0, **pattern) as running:
        yield running


def one_input(module):
    tensor = module.InferInput("IN", [1], "FP32")
    tensor.set_data_from_numpy(np.ones(1, np.float32))
    return [tensor]


def told(result):
    return json.loads(result.as_numpy("OUT")[0])


def lower(parameters):
    """Whether a client of HTTP keeps the case of names is its own affair."""
    return {name.lower(): value for name, value in parameters.items()}


@pytest.mark.parametrize("model", ["tells", "whole"])
def test_both_protocols(server, model):
    for module, door in ((httpclient, "http"), (grpcclient, "grpc")):
        with module.InferenceServerClient(f"127.0.0.1:{server.ports[door]}") as client:
            # A copy: the client of HTTP adds its own.
            headers = {name.lower() if door == "grpc" else name: value for name, value in HEADERS.items()}
            result = client.infer(model, one_input(module), headers=headers, parameters={"x-user": "mallory", "own": 1})
            seen = told(result)
            if door == "http":  # where a parameter "x-user" is not the header "X-User"
                seen = {name: value for name, value in seen.items() if value != "mallory"}
            assert lower(seen) == {**SEEN, "own": 1}
            assert told(client.infer(model, one_input(module), parameters={"own": 1})) == {"own": 1}


def test_the_spelling_of_http(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    body = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]})
    for path, sent in (("infer", body), ("generate", '{"IN": 1}')):
        connection.request("POST", f"/v2/models/tells/{path}", body=sent, headers=HEADERS)
        answer = json.loads(connection.getresponse().read())
        text = answer["OUT"] if path == "generate" else answer["outputs"][0]["data"][0]
        assert json.loads(text) == {"X-User": "alice", "x-tenant": "snails"}
    connection.close()


def test_a_stream_has_the_headers_of_its_call_in_each_request(server):
    answers = SimpleQueue()
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)), headers={"x-user": "alice"})
        for number in (1, 2):
            client.async_stream_infer("tells", one_input(grpcclient), parameters={"own": number})
        for number in (1, 2):
            result, error = answers.get(timeout=PATIENCE_S)
            assert error is None
            assert told(result) == {"own": number, "x-user": "alice"}


def test_names_of_the_server_are_refused(server):
    for module, door in ((httpclient, "http"), (grpcclient, "grpc")):
        with (
            module.InferenceServerClient(f"127.0.0.1:{server.ports[door]}") as client,
            pytest.raises(InferenceServerException, match="'priority' is reserved for Triton usage"),
        ):
            client.infer("tells", one_input(module), headers={"priority": "9"})
