"""What SageMaker asks of a container: pings, invocations, and models that it loads and unloads itself."""

import gzip
import http.client
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.http as httpclient

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError
from tests.conformance.test_model_control import DOUBLED
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S, readable
from tests.models.repository import write_config, write_python_model

BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="
JSON = {"Content-Type": "application/json"}
FULL = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            raise pb_utils.TritonModelException("CUDA out of memory: 3 GiB asked for")
"""
OF_FULL = """
    input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
    parameters { key: "EXECUTION_ENV" value { string_value: "inline" } }
"""
TELLS = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            text = pb_utils.get_input_tensor_by_name(requests[0], "PROMPT").as_numpy()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", text)])]
"""
OF_TELLS = """
    input { name: "PROMPT" data_type: TYPE_STRING dims: [ 1 ] }
    output { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }
"""


class SageMaker:
    """A client of the door of SageMaker."""

    def __init__(self, server):
        self._port = server.ports["sagemaker"]

    def ask(self, method, path, body=b"", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, text, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def status(self, *words, **more):
        return self.ask(*words, **more)[0]

    def load(self, name, url, **headers):
        status, _, body = self.ask("POST", "/models", {"model_name": name, "url": str(url)}, {**JSON, **headers})
        return status, body.decode()

    def models(self):
        return json.loads(self.ask("GET", "/models")[2])["models"]


def body_for_add_sub(*, is_binary, asks_binary=False, datatype="FP32"):
    inputs = []
    for name in ("INPUT0", "INPUT1"):
        tensor = httpclient.InferInput(name, [1, 16], datatype)
        tensor.set_data_from_numpy(np.arange(16, dtype=np.float32).reshape(1, 16), binary_data=is_binary)
        inputs.append(tensor)
    outputs = [httpclient.InferRequestedOutput("OUTPUT0", binary_data=asks_binary)]
    return httpclient.InferenceServerClient.generate_request_body(inputs, outputs=outputs)


def result(answer):
    status, headers, body = answer
    assert status == 200, body
    assert headers["Inference-Header-Content-Length"] is None
    kind = headers["Content-Type"]
    length = int(kind.removeprefix(BINARY)) if kind.startswith(BINARY) else None
    assert kind == "application/json" or length
    return httpclient.InferenceServerClient.parse_response_body(body, header_length=length)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return tmp_path_factory.mktemp("sagemaker") / "models"


@pytest.fixture(scope="module")
def environment(models):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "add_sub")
        patch.setenv("CHARONIA_SAGEMAKER_MODELS", str(models))
        yield patch


@pytest.fixture(scope="module")
def server(tmp_path_factory, environment):
    folder = tmp_path_factory.mktemp("single")
    onnx_models.save(onnx_models.add_sub(), folder, "add_sub", 1)
    with Server(
        folder,
        model_control_mode="explicit",
        load_model=["add_sub"],
        model_namespacing=True,
        allow_http=False,
        allow_grpc=False,
        allow_metrics=False,
        allow_sagemaker=True,
        sagemaker_port=0,
        http_max_input_size=1 << 20,
        log_error=False,
    ) as running:
        yield running


@pytest.fixture
def sagemaker(server):
    client = SageMaker(server)
    yield client
    for each in client.models():
        assert client.status("DELETE", f"/models/{each['modelName']}") == 200


def lay_out_add_sub(models, name):
    """The archive has the model at its top."""
    onnx_models.save(onnx_models.add_sub(), models / name, "model", 1)
    write_config(models / name, "model", 'name: "another"')
    return models / name / "model"


def test_pings(sagemaker):
    assert sagemaker.status("GET", "/ping") == 200
    assert sagemaker.status("POST", "/ping") == 405


@pytest.mark.parametrize("asks_binary", [False, True])
@pytest.mark.parametrize("is_binary", [False, True])
def test_invocations_in_both_types(sagemaker, is_binary, asks_binary):
    body, length = body_for_add_sub(is_binary=is_binary, asks_binary=asks_binary)
    headers = {"Content-Type": f"{BINARY}{length}"} if is_binary else JSON
    answer = sagemaker.ask("POST", "/invocations", body, {**headers, "Accept-Encoding": "gzip, deflate"})
    assert result(answer).as_numpy("OUTPUT0").tolist() == (np.arange(16.0).reshape(1, 16) * 2).tolist()
    assert answer[1]["Content-Encoding"] is None


def test_compressed_invocations(sagemaker):
    body, length = body_for_add_sub(is_binary=True)
    headers = {"Content-Type": f"{BINARY}{length}", "Content-Encoding": "gzip"}
    answer = sagemaker.ask("POST", "/invocations", gzip.compress(body), headers)
    assert result(answer).as_numpy("OUTPUT0")[0, 15] == 30


@pytest.mark.parametrize("length", ["x", "-123", "12345", "99999999999", ""])
def test_lengths_that_are_none(sagemaker, length):
    body = body_for_add_sub(is_binary=True)[0]
    assert sagemaker.status("POST", "/invocations", body, {"Content-Type": f"{BINARY}{length}"}) == 400
    assert sagemaker.status("POST", "/invocations", body, {"Content-Type": f"x/{BINARY}{len(body)}"}) == 400
    assert sagemaker.status("GET", "/ping") == 200


def test_other_paths_do_not_exist(sagemaker):
    for path in ("/", "/v2", "/v2/models/add_sub/infer", "/v2/health/live", "/models/", "/metrics", "/models/a/b/c"):
        assert sagemaker.status("POST", path, b"{}") == 404, path


def test_bodies_have_their_limit(sagemaker):
    status, _, body = sagemaker.ask("POST", "/invocations", b" " * (2 << 20), JSON)
    assert status == 400
    assert b"--http-max-input-size" in body


def test_a_model_comes_and_goes(sagemaker, models):
    url = lay_out_add_sub(models, "0123abc")
    assert sagemaker.status("POST", "/models/m/invoke", b"{}") == 404
    assert sagemaker.load("m", url)[0] == 200
    status, text = sagemaker.load("m", url)
    assert status == 409
    assert "loaded already" in text
    assert sagemaker.load("other", url)[0] == 409
    shown = {"modelName": "m", "modelUrl": str(models / "0123abc")}
    assert sagemaker.models() == [shown]
    assert json.loads(sagemaker.ask("GET", "/models/m")[2]) == shown
    body, length = body_for_add_sub(is_binary=True, asks_binary=True)
    answer = sagemaker.ask("POST", "/models/m/invoke", body, {"Content-Type": f"{BINARY}{length}"})
    assert result(answer).get_response()["model_name"] == "m"
    assert result(answer).as_numpy("OUTPUT0")[0, 15] == 30
    assert sagemaker.status("DELETE", "/models/m") == 200
    assert sagemaker.models() == []
    for method, path in (("DELETE", "/models/m"), ("GET", "/models/m"), ("POST", "/models/m/invoke")):
        assert sagemaker.status(method, path) == 404
    assert sagemaker.load("m", url)[0] == 200


WAITS = """
    import os

    class TritonPythonModel:
        def initialize(self, args):
            os.write({entered}, b"!")
            os.read({go}, 1)

        def execute(self, requests): ...
"""


@pytest.fixture
def pipes():
    """Two of them, each its end to read and its end to write."""
    ends = os.pipe(), os.pipe()
    yield ends
    for end in (*ends[0], *ends[1]):
        os.close(end)


@pytest.fixture
def other_client(pipes):
    with ThreadPoolExecutor(1) as pool:
        yield pool
        os.write(pipes[1][1], b"!")  # else a test that failed would wait for the load's end


def test_two_loads_of_one_name_at_once(sagemaker, models, other_client, pipes):
    """Though the archives are two, and what they are served as. The second is told while the first is under way."""
    config = OF_FULL.replace("EXECUTION_ENV", "execution")  # inline: it has our descriptors
    write_python_model(models / "slow", "model", config, WAITS.format(entered=pipes[0][1], go=pipes[1][0]))
    url = lay_out_add_sub(models, "quick")
    slow = {"X-Amzn-SageMaker-Target-Model": "slow.tar.gz"}
    first = other_client.submit(sagemaker.load, "m", models / "slow" / "model", **slow)
    assert readable(pipes[0][0])
    for model in ("quick.tar.gz", "slow.tar.gz"):
        status, text = sagemaker.load("m", url, **{"X-Amzn-SageMaker-Target-Model": model})
        assert (status, "'m' is being loaded" in text) == (409, True)
    assert sagemaker.models() == []
    os.write(pipes[1][1], b"!")
    assert first.result(PATIENCE_S) == (200, "")
    assert sagemaker.models() == [{"modelName": "m", "modelUrl": str(models / "slow")}]
    assert sagemaker.status("DELETE", "/models/m") == 200
    assert sagemaker.load("m", url)[0] == 200


def test_models_are_served_under_the_name_of_their_archive(sagemaker, models):
    url = lay_out_add_sub(models, "4567def")
    assert sagemaker.load("4567def", url, **{"X-Amzn-SageMaker-Target-Model": "my model.tar.gz"})[0] == 200
    answer = sagemaker.ask("POST", "/models/4567def/invoke", body_for_add_sub(is_binary=False)[0], JSON)
    assert result(answer).get_response()["model_name"] == "my model.tar.gz"
    assert sagemaker.models() == [{"modelName": "4567def", "modelUrl": str(models / "4567def")}]


def test_of_several_models_the_ensemble_is_meant(sagemaker, models):
    """Two archives have steps of one name."""
    for name in ("one", "two"):
        onnx_models.save(onnx_models.add_sub(), models / name / "model", "add_sub", 1)
        write_config(models / name / "model", "add_sub", "max_batch_size: 4")
        (write_config(models / name / "model", "doubled", DOUBLED) / "1").mkdir()
        assert sagemaker.load(name, models / name / "model") == (200, "")
    request = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 16], "data": [1.5] * 16}]}
    for name in ("one", "two"):
        answer = result(sagemaker.ask("POST", f"/models/{name}/invoke", request, JSON))
        assert answer.as_numpy("OUT").tolist() == [[3.0] * 16]
    assert sagemaker.status("DELETE", "/models/one") == 200
    result(sagemaker.ask("POST", "/models/two/invoke", request, JSON))


def test_no_memory_left_has_a_status_of_its_own(sagemaker, models):
    write_python_model(models / "full", "model", OF_FULL, FULL)
    assert sagemaker.load("full", models / "full" / "model") == (200, "")
    request = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
    status, headers, body = sagemaker.ask("POST", "/models/full/invoke", request, JSON)
    assert (status, headers["Content-Type"]) == (507, "application/json")
    assert "out of memory" in json.loads(body)["error"]
    request["inputs"][0]["datatype"] = "INT8"
    assert sagemaker.status("POST", "/models/full/invoke", request, JSON) == 400


def test_models_that_take_too_much_memory_to_load(sagemaker, models):
    code = "class TritonPythonModel:\n    def initialize(self, args):\n        raise MemoryError('no more')\n"
    write_python_model(models / "large", "model", OF_FULL, code + "    def execute(self, requests): ...\n")
    status, text = sagemaker.load("large", models / "large" / "model")
    assert (status, "no more" in text) == (507, True)
    assert sagemaker.models() == []
    assert sagemaker.load("large", models / "large" / "model")[0] == 507


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "not valid JSON"),
        (b"", "'model_name' is missing"),
        ({"model_name": "m"}, "'url' is missing"),
        ({"model_name": 7, "url": "/x"}, "expected a string, got the number 7"),
        ({"model_name": "m", "url": "/etc"}, "expected a path of the form"),
        ({"model_name": "m", "url": "/proc/self"}, "expected a path of the form"),
        ({"model_name": "m", "url": "{models}/x/model/../../../../etc"}, "expected a path of the form"),
        ({"model_name": "m", "url": "{models}/absent/model"}, "No such file"),
    ],
)
def test_loads_that_make_no_sense(sagemaker, models, body, sentence):
    if isinstance(body, dict) and isinstance(body.get("url"), str):
        body = {**body, "url": body["url"].replace("{models}", str(models))}
    status, _, answer = sagemaker.ask("POST", "/models", body, JSON)
    assert status == 400
    assert sentence in json.loads(answer)["error"]


def test_a_model_that_can_not_be_loaded(sagemaker, models):
    (models / "broken" / "model" / "1").mkdir(parents=True)
    (models / "broken" / "model" / "1" / "model.onnx").write_bytes(b"no model")
    assert sagemaker.load("broken", models / "broken" / "model")[0] == 400
    lay_out_add_sub(models, "broken")
    assert sagemaker.load("broken", models / "broken" / "model")[0] == 200


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
def test_invocations_may_generate(tmp_path, environment, kind):
    write_python_model(tmp_path, "tells", OF_TELLS, TELLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", "tells")
        patch.setenv("SAGEMAKER_TRITON_INFERENCE_TYPE", kind)
        patch.setenv("SAGEMAKER_TRITON_PING_MODE", "live")
        closed = {"allow_http": False, "allow_grpc": False, "allow_metrics": False}
        with Server(tmp_path, allow_sagemaker=True, sagemaker_port=0, **closed) as running:
            client = SageMaker(running)
            status, headers, body = client.ask("POST", "/invocations", {"PROMPT": "hello"}, JSON)
            assert client.status("GET", "/ping") == 200
    text = body.decode().removeprefix("data:").strip()
    assert (status, json.loads(text)["TEXT"]) == (200, "hello")
    assert headers["Content-Type"].startswith("text/event-stream" if kind == "generate_stream" else "application/json")


def test_an_environment_that_makes_no_sense(tmp_path, environment):
    onnx_models.save(onnx_models.add_sub(), tmp_path, "add_sub", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAGEMAKER_TRITON_INFERENCE_TYPE", "guess")
        with pytest.raises(InvalidArgumentError, match="Invalid SAGEMAKER_TRITON_INFERENCE_TYPE 'guess'"):
            Server(tmp_path, allow_sagemaker=True, sagemaker_port=0, allow_http=False, allow_grpc=False).start()


@pytest.mark.parametrize("value", [None, ""])
def test_invocations_without_a_default_model(tmp_path, environment, value):
    onnx_models.save(onnx_models.add_sub(), tmp_path, "add_sub", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME")
        if value is not None:
            patch.setenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", value)
        with Server(tmp_path, allow_sagemaker=True, sagemaker_port=0, allow_http=False, allow_grpc=False) as running:
            client = SageMaker(running)
            status, _, body = client.ask("POST", "/invocations", body_for_add_sub(is_binary=False)[0], JSON)
            assert client.status("GET", "/invocations") == 405
            assert client.status("GET", "/ping") == 200
    assert status == 404
    assert "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME is to name one" in json.loads(body)["error"]


def test_keys(tmp_path, environment, models):
    onnx_models.save(onnx_models.add_sub(), tmp_path, "add_sub", 1)
    keys = ["model-repository:X-Admin=sesame", "inference:X-Infer=open"]
    with Server(
        tmp_path, allow_sagemaker=True, sagemaker_port=0, http_port=0, allow_grpc=False, http_restricted_api=keys
    ) as running:
        client = SageMaker(running)
        assert client.status("GET", "/ping") == 200
        for method, path in (("GET", "/models"), ("POST", "/models"), ("GET", "/models/m"), ("DELETE", "/models/m")):
            status, _, body = client.ask(method, path)
            assert (status, b"This API is restricted" in body) == (403, True)
            assert client.status(method, path, headers={"X-Admin": "wrong"}) == 403
            assert client.status(method, path, headers={"X-Admin": "sesame"}) != 403
        body = body_for_add_sub(is_binary=False)[0]
        assert client.status("POST", "/invocations", body) == 403
        assert client.status("POST", "/invocations", body, {"X-Infer": "open"}) == 200


def test_requests_are_recorded_as_those_of_http_are(tmp_path, environment):
    onnx_models.save(onnx_models.add_sub(), tmp_path / "models", "add_sub", 1)
    access, traces = tmp_path / "access.log", tmp_path / "traces.json"
    config = ["level=TIMESTAMPS", "rate=1", f"triton,file={traces}"]
    doors = {"allow_sagemaker": True, "sagemaker_port": 0, "allow_http": False, "allow_grpc": False}
    with Server(
        tmp_path / "models", access_log=str(access), trace_config=config, allow_metrics=False, **doors
    ) as running:
        result(SageMaker(running).ask("POST", "/invocations", body_for_add_sub(is_binary=False)[0], JSON))
    (line,) = [json.loads(line) for line in access.read_text().splitlines()]
    assert (line["protocol"], line["path"], line["status"]) == ("sagemaker", "/invocations", 200)
    assert line["model"] == "add_sub"
    assert "add_sub" in traces.read_text()
