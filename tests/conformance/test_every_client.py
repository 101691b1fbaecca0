"""What all four forms of the real client do alike: health, metadata, configuration, statistics, index, inference."""

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.conformance.conftest import plain


def pair(client, rows=1, value=3):
    first = np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)
    second = np.full((rows, 16), value, np.float32)
    return first, second, [client.tensor("INPUT0", first, "FP32"), client.tensor("INPUT1", second, "FP32")]


def refusal(client, method, *args, **options):
    with pytest.raises(InferenceServerException) as refused:
        client.call(method, *args, **options)
    return refused.value


def test_health(client):
    assert client.call("is_server_live") is True
    assert client.call("is_server_ready") is True
    assert client.call("is_model_ready", "add_sub") is True
    assert client.call("is_model_ready", "add_sub", "2") is True


def test_readiness_of_what_is_not_there(client):
    for name, version in (("nope", ""), ("add_sub", "7")):
        assert client.call("is_model_ready", name, version) is False


def test_server_metadata(client):
    told = client.ask("get_server_metadata")
    assert told["name"] == "conforming"
    assert told["version"]
    named = {"classification", "sequence", "model_repository", "statistics", "binary_tensor_data"}
    assert named <= set(told["extensions"])
    assert {"trace", "system_shared_memory"} <= set(told["extensions"])


def test_model_metadata(client):
    told = plain(client.ask("get_model_metadata", "add_sub"))
    assert told["name"] == "add_sub"
    assert list(map(str, told["versions"])) == ["1", "2"]
    assert told["platform"] == "onnxruntime_onnx"
    assert [(each["name"], each["datatype"], each["shape"]) for each in told["inputs"]] == [
        ("INPUT0", "FP32", [-1, 16]),
        ("INPUT1", "FP32", [-1, 16]),
    ]
    assert [each["name"] for each in told["outputs"]] == ["OUTPUT0", "OUTPUT1"]
    assert plain(client.ask("get_model_metadata", "add_sub", "1"))["versions"]


def test_model_config(client):
    told = client.ask("get_model_config", "add_sub")
    config = plain(told["config"] if client.is_grpc else told)
    assert (config["name"], config["backend"], config["max_batch_size"]) == ("add_sub", "onnxruntime", 8)
    assert [each["name"] for each in config["input"]] == ["INPUT0", "INPUT1"]
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["input"][0]["dims"] == [16]
    assert config["instance_group"][0]["count"] == 1
    assert config["dynamic_batching"]["preferred_batch_size"] == [8]


def test_repository_index(client):
    told = client.ask("get_model_repository_index")
    models = told["models"] if client.is_grpc else told
    states = {(each["name"], each.get("version")): each.get("state") for each in models}
    assert states == {
        ("add_sub", "1"): "READY",
        ("add_sub", "2"): "READY",
        ("words", "1"): "READY",
        ("scores", "1"): "READY",
        ("gated", "1"): "READY",
    }


def test_statistics_move(client):
    def counted():
        (stats,) = plain(client.ask("get_inference_statistics", "add_sub", "2"))["model_stats"]
        return stats.get("inference_count", 0), stats.get("execution_count", 0), stats["inference_stats"]

    rows, executions, durations = counted()
    client.call("infer", "add_sub", pair(client, rows=3)[2])
    rows_after, executions_after, durations_after = counted()
    assert (rows_after, executions_after) == (rows + 3, executions + 1)
    before = durations["success"].get("count", 0)
    assert durations_after["success"]["count"] == before + 1
    assert durations_after["compute_infer"]["ns"] > 0
    everything = client.ask("get_inference_statistics")["model_stats"]
    assert {each["name"] for each in everything} == {"add_sub", "words", "scores", "gated"}
    assert len(client.ask("get_inference_statistics", "add_sub")["model_stats"]) == 2


def test_infer(client):
    first, second, inputs = pair(client, rows=2)
    result = client.call("infer", "add_sub", inputs, request_id="my id")
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first - second)
    response = result.get_response(as_json=True) if client.is_grpc else result.get_response()
    assert response["id"] == "my id"
    assert response["model_name"] == "add_sub"
    assert response["model_version"] == "2"
    assert result.as_numpy("NOPE") is None


def test_a_version_is_chosen(client):
    result = client.call("infer", "add_sub", pair(client)[2], model_version="1")
    response = result.get_response(as_json=True) if client.is_grpc else result.get_response()
    assert response["model_version"] == "1"


def test_outputs_are_chosen(client):
    outputs = [client.module.InferRequestedOutput("OUTPUT1")]
    result = client.call("infer", "add_sub", pair(client)[2], outputs=outputs)
    assert result.as_numpy("OUTPUT0") is None
    assert result.as_numpy("OUTPUT1").shape == (1, 16)
    assert result.get_output("OUTPUT1") is not None


def test_text(client):
    words = np.array([["größer".encode(), b"", b"a\0b\0"]], np.object_)
    result = client.call("infer", "words", [client.tensor("INPUT0", words, "BYTES")])
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), words)


def test_classification(client):
    scores = np.array([[0.25, 0.5, 0.125, 1.0], [4, 3, 2, 1]], np.float32)
    wanted = [client.module.InferRequestedOutput("OUTPUT0", class_count=2)]
    result = client.call("infer", "scores", [client.tensor("INPUT0", scores, "FP32")], outputs=wanted)
    classes = [[text.decode().split(":") for text in row] for row in result.as_numpy("OUTPUT0")]
    assert [[(float(score), *rest) for score, *rest in row] for row in classes] == [
        [(1.0, "3"), (0.5, "1", "dog")],
        [(4.0, "0", "cat"), (3.0, "1", "dog")],
    ]


def test_more_classes_than_there_are(client):
    scores = np.array([[1, 2]], np.float32)
    wanted = [client.module.InferRequestedOutput("OUTPUT0", class_count=9)]
    result = client.call("infer", "scores", [client.tensor("INPUT0", scores, "FP32")], outputs=wanted)
    assert result.as_numpy("OUTPUT0").shape == (1, 2)


def test_parameters_are_passed_on(client):
    result = client.call("infer", "add_sub", pair(client)[2], parameters={"text": "word", "whole": 7, "yes": True})
    assert result.as_numpy("OUTPUT0").shape == (1, 16)


def test_errors_name_model_and_tensor(client):
    missing = refusal(client, "infer", "add_sub", pair(client)[2][:1])
    assert missing.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert "expected 2 inputs but got 1 inputs for model 'add_sub'" in missing.message()
    unknown = refusal(client, "infer", "nope", pair(client)[2])
    assert unknown.status() in ("404", "StatusCode.NOT_FOUND")
    assert "unknown model: 'nope'" in unknown.message()
    assert "'nope'" in refusal(client, "get_model_metadata", "nope").message()
    assert "'nope'" in refusal(client, "get_model_config", "nope").message()
    assert "'nope'" in refusal(client, "get_inference_statistics", "nope").message()


NOT_ALLOWED = (
    ("load_model", ("add_sub",), "--model-control-mode=explicit"),
    ("unload_model", ("add_sub",), "--model-control-mode=explicit"),
    ("register_system_shared_memory", ("region", "/key", 64), "--allow-client-shm=true"),
    ("unregister_system_shared_memory", (), "--allow-client-shm=true"),
    ("unregister_cuda_shared_memory", (), "--allow-client-shm=true"),
)


@pytest.mark.parametrize(("method", "args", "flag"), NOT_ALLOWED, ids=[method for method, _, _ in NOT_ALLOWED])
def test_what_is_not_allowed_names_the_flag(client, method, args, flag):
    refused = refusal(client, method, *args)
    assert refused.status() in ("501", "503", "StatusCode.UNIMPLEMENTED", "StatusCode.UNAVAILABLE")
    assert flag in refused.message()


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_there_are_no_regions(client, kind):
    told = client.ask(f"get_{kind}_shared_memory_status")
    assert not (told.get("regions") if client.is_grpc else told)


def test_a_reused_input_object(client):
    inputs = pair(client)[2]
    for value in (1, 2):
        inputs[0].set_data_from_numpy(np.full((1, 16), value, np.float32))
        inputs[1].set_data_from_numpy(np.zeros((1, 16), np.float32))
        result = client.call("infer", "add_sub", inputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), np.full((1, 16), value))


def test_a_large_tensor(client):
    array = np.arange(4_000_000, dtype=np.float32).reshape(1, -1)
    result = client.call("infer", "scores", [client.tensor("INPUT0", array, "FP32")])
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)
