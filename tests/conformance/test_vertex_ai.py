"""What Vertex AI asks of a container: health, predictions, and calls of HTTP that a header names."""

import http.client
import json

import numpy as np
import pytest
import tritonclient.http as httpclient

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError, UnavailableError
from tests.conformance.test_sagemaker import body_for_add_sub
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S

BINARY = "application/vnd.vertex-ai-triton.binary+json;json-header-size="
JSON = {"Content-Type": "application/json"}
HEALTH, PREDICT = "/v1/endpoints/1/deployedModels/2", "/v1/endpoints/1/deployedModels/2:predict"
CLOSED = {"allow_http": False, "allow_grpc": False}


class VertexAi:
    """A client of the door of Vertex AI."""

    def __init__(self, server):
        self._port = server.ports["vertex-ai"]

    def ask(self, method, path, body=b"", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def predict(self, body, headers=JSON):
        return self.ask("POST", PREDICT, body, headers)

    def redirect(self, path, body=b"", **headers):
        return self.predict(body, {"X-Vertex-Ai-Triton-Redirect": path, **headers})


@pytest.fixture(scope="module")
def environment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIP_HEALTH_ROUTE", HEALTH)
        patch.setenv("AIP_PREDICT_ROUTE", PREDICT)
        yield patch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("vertex")
    for name in ("add_sub", "other"):
        onnx_models.save(onnx_models.add_sub(), made, name, 1)
    return made


@pytest.fixture(scope="module")
def vertex_ai(folder, environment):
    options = {"allow_vertex_ai": True, "vertex_ai_port": 0, "vertex_ai_default_model": "add_sub", **CLOSED}
    with Server(folder, metrics_port=0, allow_client_shm=True, **options) as running:
        yield VertexAi(running)


def result(answer):
    status, headers, body = answer
    assert status == 200, body
    length = headers["Inference-Header-Content-Length"]
    return httpclient.InferenceServerClient.parse_response_body(body, header_length=int(length) if length else None)


def test_health(vertex_ai):
    assert vertex_ai.ask("GET", HEALTH)[0] == 200
    assert vertex_ai.ask("GET", f"{HEALTH}/")[0] == 404


@pytest.mark.parametrize("asks_binary", [False, True])
@pytest.mark.parametrize("is_binary", [False, True])
def test_predictions_in_both_types(vertex_ai, is_binary, asks_binary):
    body, length = body_for_add_sub(is_binary=is_binary, asks_binary=asks_binary)
    answer = vertex_ai.predict(body, {"Content-Type": f"{BINARY}{length}"} if is_binary else JSON)
    assert answer[1]["Content-Type"] == ("application/octet-stream" if asks_binary else "application/json")
    assert result(answer).as_numpy("OUTPUT0").tolist() == (np.arange(16.0).reshape(1, 16) * 2).tolist()
    assert result(answer).get_response()["model_name"] == "add_sub"


@pytest.mark.parametrize("length", ["x", "-123", "12345", "99999999999"])
def test_lengths_that_are_none(vertex_ai, length):
    assert vertex_ai.predict(body_for_add_sub(is_binary=True)[0], {"Content-Type": f"{BINARY}{length}"})[0] == 400
    assert vertex_ai.ask("GET", HEALTH)[0] == 200


def test_a_prediction_of_another_model(vertex_ai):
    answer = vertex_ai.redirect("v2/models/other/versions/1/infer", body_for_add_sub(is_binary=False)[0])
    assert result(answer).get_response()["model_name"] == "other"
    assert vertex_ai.redirect("v2/models/absent/infer", b'{"inputs":[]}')[0] == 404


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("metrics", b"nv_inference_request_success"),
        ("v2", b"extensions"),
        ("v2/health/live", b""),
        ("v2/health/ready", b""),
        ("v2/models/stats", b"other"),
        ("v2/models/other", b"platform"),
        ("v2/models/other/ready", b""),
        ("v2/models/other/versions/1/stats", b"model_stats"),
        ("v2/models/other/config", b"version_policy"),
        ("v2/repository/index", b"READY"),
        ("v2/systemsharedmemory/status", b"[]"),
    ],
)
def test_what_only_reads_is_there_by_redirect(vertex_ai, path, says):
    status, _, body = vertex_ai.redirect(path)
    assert (status, says in body) == (200, True)
    assert vertex_ai.ask("GET", PREDICT, headers={"X-Vertex-Ai-Triton-Redirect": path})[0] == 405


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("v2/repository/models/other/unload", 403),
        ("v2/repository/models/other/load", 403),
        ("v2/systemsharedmemory/region/r/register", 403),
        ("v2/systemsharedmemory/unregister", 403),
        ("v2/cudasharedmemory/region/r/register", 403),
        ("v2/logging", 400),
        ("v2/trace/setting", 400),
        ("v2/models/other/generate", 400),
        ("v2/models/absent/config", 404),
        ("live", 400),
        ("", 400),
        ("\xff", 400),
    ],
)
def test_what_changes_something_is_not(vertex_ai, path, status):
    got, headers, body = vertex_ai.redirect(path)
    assert (got, headers["Content-Type"]) == (status, "application/json")
    assert json.loads(body)["error"]


def test_paths_of_http_do_not_exist(vertex_ai):
    for path in ("/v2", "/v2/models/add_sub/infer", "/metrics", "/v2/repository/index"):
        assert vertex_ai.ask("POST", path, b"{}")[0] == 404, path


def test_keys_hold_for_redirects(folder, environment):
    keys = ["metadata,model-config,model-repository,statistics,shared-memory:X-Key=secret"]
    options = {"vertex_ai_port": 0, "vertex_ai_default_model": "add_sub", "http_restricted_api": keys, **CLOSED}
    with Server(folder, allow_vertex_ai=True, allow_metrics=False, **options) as running:
        client = VertexAi(running)
        assert client.predict(body_for_add_sub(is_binary=False)[0])[0] == 200
        paths = ["v2", "v2/models/add_sub/config", "v2/repository/index", "v2/systemsharedmemory/status"]
        for path in (*paths, b"v2/repository/\xff/index", "v2/repository/\u00e9/index".encode()):
            assert client.redirect(path)[0] == 403
            assert client.redirect(path, **{"X-Key": "wrong"})[0] == 403
            assert client.redirect(path, **{"X-Key": "secret"})[0] == 200
        assert client.redirect("v2/repository/models/add_sub/unload", **{"X-Key": "secret"})[0] == 403


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("", "Expect the model repository contains only a single model if default model is not specified"),
        ("absent", "Expect the default model 'absent' is loaded"),
    ],
)
def test_a_server_without_a_model_to_predict_with_does_not_start(folder, environment, wanted, sentence):
    options = {"vertex_ai_port": 0, "vertex_ai_default_model": wanted, "allow_metrics": False, **CLOSED}
    with pytest.raises(UnavailableError, match=sentence):
        Server(folder, allow_vertex_ai=True, **options).start()


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("AIP_PREDICT_ROUTE", "API_PREDICT_ROUTE is not defined for Vertex AI endpoint"),
        ("AIP_HEALTH_ROUTE", "AIP_HEALTH_ROUTE is not defined for Vertex AI endpoint"),
    ],
)
def test_routes_must_be_known(folder, environment, missing, sentence):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(missing)
        with pytest.raises(InvalidArgumentError, match=sentence):
            Server(folder, allow_vertex_ai=True, vertex_ai_port=0, **CLOSED).start()
