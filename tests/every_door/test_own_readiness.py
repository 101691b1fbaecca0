"""Models whose class has `is_ready`: every question about readiness is theirs to answer."""

import json

import grpc
import numpy as np
import pytest

from charonia.api import Server
from charonia.config import service_schema as schema
from tests.every_door.raw import RawHttp
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_python_model

CODE = """
import json
import pathlib
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.word = pathlib.Path(json.loads(args["model_config"])["parameters"]["word"]["string_value"])

    async def is_ready(self):
        return json.loads(self.word.read_text())

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
ASKS = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        found = np.array([pb_utils.is_model_ready("m")])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", found)]) for _ in requests]
"""
CONFIG = """
input [ {{ name: "IN" data_type: TYPE_BOOL dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_BOOL dims: [ 1 ] }} ]
parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
parameters {{ key: "word" value {{ string_value: "{word}" }} }}
"""
X = {"IN": np.array([True])}


@pytest.fixture(params=["isolated", "inline"])
def serve(request, tmp_path):
    """Servers of the models `m`, which says what it is told to, and `asks`, which asks about `m`."""
    servers = []

    def make(**options):
        word = tmp_path / "word"
        word.write_text("true")
        config = CONFIG.format(form=request.param, word=word)
        write_python_model(tmp_path / "models", "m", config, CODE)
        write_python_model(tmp_path / "models", "asks", config, ASKS)
        server = Server(tmp_path / "models", http_port=0, grpc_port=0, metrics_port=0, **options).start()
        servers.append(server)
        return server, lambda value: word.write_text(json.dumps(value))

    yield make
    for server in servers:
        server.stop()


def readiness(server):
    """What each way tells of the model `m`, of the other one and of the server."""
    http = RawHttp(server)
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}") as channel:

        def call(method, request=b""):
            return channel.unary_unary(method)(request, timeout=PATIENCE_S)

        service = "/inference.GRPCInferenceService"
        asked = schema.ModelReadyRequest(name="m", version="1").SerializeToString()
        model = (
            http.client.get("/v2/models/m/ready").status_code == 200,
            http.client.get("/v2/models/m/versions/1/ready").status_code == 200,
            schema.ModelReadyResponse.FromString(call(f"{service}/ModelReady", asked)).ready,
            server.model("m").ready,
            bool(server.model("asks").infer(X)["OUT"][0]),
        )
        whole = (
            http.client.get("/v2/health/ready").status_code == 200,
            schema.ServerReadyResponse.FromString(call(f"{service}/ServerReady")).ready,
            call("/grpc.health.v1.Health/Check") == b"\x08\x01",
            server.ready,
        )
        other = http.client.get("/v2/models/asks/ready").status_code == 200
    http.close()
    return set(model), set(whole), other


def test_the_model_is_asked_each_time(serve):
    server, say = serve()
    assert readiness(server) == ({True}, {True}, True)
    say(False)
    assert readiness(server) == ({False}, {False}, True)
    assert server.model("m").infer(X)["OUT"][0]
    say("no truth value")
    assert readiness(server) == ({False}, {False}, True)
    say(True)
    assert readiness(server) == ({True}, {True}, True)


def test_a_server_that_is_not_strict_is_ready_all_the_same(serve):
    server, say = serve(strict_readiness=False)
    say(False)
    assert readiness(server) == ({False}, {True}, True)


def test_an_answer_names_the_model(serve):
    server, say = serve()
    say(False)
    http = RawHttp(server)
    answer = http.client.get("/v2/models/m/ready")
    http.close()
    assert answer.status_code == 400
    assert answer.json() == {"error": "model 'm' is not ready"}
