"""Loading and unloading by the real clients, under explicit control."""

import http.client
import json

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from tests.conformance.conftest import FORMS, Client
from tests.models import onnx_models
from tests.models.repository import write_config

NOT_FOUND = ("404", "StatusCode.NOT_FOUND")
WRONG = ("400", "StatusCode.INVALID_ARGUMENT")


DOUBLED = """
    platform: "ensemble"
    max_batch_size: 4
    input { name: "IN" data_type: TYPE_FP32 dims: [ 16 ] }
    output { name: "OUT" data_type: TYPE_FP32 dims: [ 16 ] }
    ensemble_scheduling {
      step {
        model_name: "add_sub"
        model_version: -1
        input_map [ { key: "INPUT0" value: "IN" }, { key: "INPUT1" value: "IN" } ]
        output_map { key: "OUTPUT0" value: "OUT" }
      }
    }
"""


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explicit")
    for name in ("add_sub", "with space"):
        onnx_models.save(onnx_models.add_sub(), folder, name, 1)
    write_config(folder, "add_sub", "max_batch_size: 4")
    (write_config(folder, "doubled", DOUBLED) / "1").mkdir()
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    with Server(folder, model_control_mode="explicit", http_port=0, grpc_port=0, log_error=False) as server:
        yield server


@pytest.fixture(params=FORMS)
def client(request, explicit):
    opened = Client(request.param, explicit)
    yield opened
    for name in ("doubled", "add_sub", "with space", "new", "broken"):
        opened.call("unload_model", name)
    opened.close()


def refusal(client, method, *args, **options):
    with pytest.raises(InferenceServerException) as refused:
        client.call(method, *args, **options)
    return refused.value


def config_of(client, name):
    config = client.ask("get_model_config", name)
    return config["config"] if client.is_grpc else config


def test_a_model_comes_and_goes(client):
    assert not client.call("is_model_ready", "add_sub")
    for _ in range(2):
        client.call("load_model", "add_sub")
        assert client.call("is_model_ready", "add_sub")
    value = np.ones((1, 16), np.float32)
    tensors = [client.tensor(name, value, "FP32") for name in ("INPUT0", "INPUT1")]
    assert (client.call("infer", "add_sub", tensors).as_numpy("OUTPUT0") == 2).all()
    for dependents in (False, True):
        client.call("unload_model", "add_sub", unload_dependents=dependents)
        assert not client.call("is_model_ready", "add_sub")


def test_an_ensemble_comes_and_goes_with_its_step(client):
    client.call("load_model", "doubled")
    value = np.ones((1, 16), np.float32)
    assert (client.call("infer", "doubled", [client.tensor("IN", value, "FP32")]).as_numpy("OUT") == 2).all()
    client.call("unload_model", "doubled")
    assert client.call("is_model_ready", "add_sub")
    client.call("load_model", "doubled")
    client.call("unload_model", "add_sub")
    assert not client.call("is_model_ready", "doubled")
    client.call("load_model", "add_sub")
    assert client.call("is_model_ready", "doubled")
    client.call("unload_model", "add_sub")
    client.call("unload_model", "doubled", unload_dependents=True)
    client.call("load_model", "doubled")
    client.call("unload_model", "doubled", unload_dependents=True)
    assert not any(client.call("is_model_ready", name) for name in ("doubled", "add_sub"))


def test_a_name_that_has_to_be_encoded(client):
    client.call("load_model", "with space")
    assert client.call("is_model_ready", "with space")


def test_another_config(client):
    config = config_of_loaded(client) | {"max_batch_size": 2, "dynamic_batching": {}}
    client.call("load_model", "add_sub", config=json.dumps(config))
    assert config_of(client, "add_sub")["max_batch_size"] == 2


def config_of_loaded(client):
    client.call("load_model", "add_sub")
    return config_of(client, "add_sub")


def test_other_files(client):
    config = json.dumps({"backend": "onnxruntime", "max_batch_size": 8})
    model = onnx_models.add_sub().SerializeToString()
    client.call("load_model", "new", config=config, files={"file:1/model.onnx": model})
    assert config_of(client, "new")["max_batch_size"] == 8
    assert refusal(client, "load_model", "new", files={"file:1/model.onnx": model}).status() in WRONG


@pytest.mark.parametrize(
    ("name", "options", "status", "words"),
    [
        ("nope", {}, NOT_FOUND, "nope"),
        ("broken", {}, WRONG, "broken"),
        ("add_sub", {"config": "{"}, WRONG, "add_sub"),
        ("add_sub", {"config": '{"foo": 1}'}, WRONG, "foo"),
        ("../add_sub", {}, WRONG, "../add_sub"),
        ("add_sub", {"config": "{}", "files": {"1/model.onnx": b""}}, WRONG, "load parameter '1/model.onnx'"),
        ("new", {"config": "{}", "files": {"file:../../evil.py": b""}}, WRONG, "../../evil.py"),
    ],
)
def test_what_can_not_be_loaded_says_why(client, name, options, status, words):
    # A path in a URL has to be encoded, which the HTTP clients leave out for slashes.
    asked = name.replace("/", "%2F") if not client.is_grpc else name
    refused = refusal(client, "load_model", asked, **options)
    if "%" in asked:
        assert refused.status() in ("400", "404")
    else:
        assert refused.status() in status
        assert words in refused.message()


def test_a_failed_load_leaves_what_serves(client):
    client.call("load_model", "add_sub")
    refusal(client, "load_model", "add_sub", config='{"max_batch_size": "many"}')
    assert client.call("is_model_ready", "add_sub")


def test_an_unknown_model_may_be_unloaded(client):
    client.call("unload_model", "nope")


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("models/add_sub/load", '{"parameters": {"config": {}}}', 400, "load parameter 'config'"),
        ("models/add_sub/load", '{"parameters": {"config": "{}", "file:1/m": "?"}}', 400, "load parameter 'file:1/m'"),
        ("models/add_sub/load", '{"parameters": {"config": "{}", "config": "{}"}}', 400, "'config' stands twice"),
        ("models/add_sub/load", "[" * 1000, 400, "JSON nesting depth exceeds maximum allowed limit (100)"),
        ("models/add_sub/unload", '{"parameters": {"unload_dependents": "true"}}', 400, "'unload_dependents'"),
        ("mine/models/add_sub/load", "", 501, "'repository_name' specification is not supported"),
        ("models/..%2Fadd_sub/load", "", 400, "../add_sub"),
        ("models/add%00sub/load", "", 400, "name"),
        ("models/%20/load", "", 400, "empty"),
        (f"models/{'x' * 3000}/load", "", 400, "name"),
    ],
)
def test_wrong_requests_over_http(explicit, path, body, status, words):
    connection = http.client.HTTPConnection("127.0.0.1", explicit.ports["http"], timeout=10)
    connection.request("POST", f"/v2/repository/{path}", body)
    answer = connection.getresponse()
    message = json.loads(answer.read())["error"]
    connection.close()
    assert (answer.status, len(message) < 1000) == (status, True)
    assert words in message
