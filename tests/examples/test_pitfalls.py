"""W4: what people get wrong in a repository. Each refusal says what is wrong, where, and what to write instead."""

import httpx
import numpy as np
import pytest

from charonia.api import Server
from charonia.core.errors import CharoniaError
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model


def net():
    return onnx_models.conv_net(classes=10, side=32)


def config(size, name, datatype, dims, classes):
    return f"""
        max_batch_size: {size}
        input [ {{ name: "{name}" data_type: {datatype} dims: {dims} }} ]
        output [ {{ name: "logits" data_type: TYPE_FP32 dims: {classes} }} ]
    """


IMAGE = [3, 32, 32]
WRONG = {
    "dims with the batch dimension": (
        config(16, "input", "TYPE_FP32", [-1, *IMAGE], [-1, 10]),
        (
            "config.pbtxt:3:",
            "dims of input 'input' are [-1, 3, 32, 32] with the batch dimension",
            "max_batch_size is 16 (line 2)",
            "write dims: [3, 32, 32]",
            "output 'logits'",
        ),
    ),
    "dims with a fixed batch dimension": (
        config(16, "input", "TYPE_FP32", [1, *IMAGE], [1, 10]),
        ("[1, 3, 32, 32] with the batch dimension", "write dims: [3, 32, 32]"),
    ),
    "dims without the batch dimension": (
        config(0, "input", "TYPE_FP32", IMAGE, [10]),
        ("[3, 32, 32] without the batch dimension", "max_batch_size is 0", "dims: [-1, 3, 32, 32]"),
    ),
    "a wrong name": (
        config(16, "images", "TYPE_FP32", IMAGE, [10]),
        ("config.pbtxt:3:", "no input 'images'", "its inputs are input", 'write name: "input"'),
    ),
    "a wrong datatype": (
        config(16, "input", "TYPE_FP16", IMAGE, [10]),
        ("config.pbtxt:3:", "'input' is TYPE_FP16", "has TYPE_FP32", "write data_type: TYPE_FP32"),
    ),
    "wrong dims": (
        config(16, "input", "TYPE_FP32", [3, 64, 64], [10]),
        ("[3, 64, 64]", "[-1, 3, 32, 32]", "dimension 2 is 32, not 64", "write dims: [3, 32, 32]"),
    ),
}


def reason(repository):
    """Why the one model of the repository does not serve."""
    with pytest.raises(CharoniaError) as refused, Server(repository, log_error=False, log_warning=False):
        pass
    return str(refused.value)


@pytest.mark.parametrize("case", WRONG)
def test_a_configuration_that_contradicts_the_model(repository, case):
    text, named = WRONG[case]
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", text)
    said = reason(repository)
    for each in ("classifier", "model.onnx", *named):
        assert each in said


def test_no_configuration_at_all_serves(repository):
    onnx_models.save(net(), repository, "classifier")
    with Server(repository) as server:
        assert server.model("classifier").infer(input=np.zeros((2, 3, 32, 32), np.float32))["logits"].shape == (2, 10)
        assert server.model("classifier").config.max_batch_size > 0


@pytest.mark.parametrize("text", ["max_batch_size: 16", None])
def test_a_misnamed_model_file(repository, text):
    onnx_models.save(net(), repository, "classifier", filename="densenet.onnx")
    if text:
        write_config(repository, "classifier", text)
    said = reason(repository)
    for named in ("classifier/1/densenet.onnx", "'model.onnx'", 'default_model_filename: "densenet.onnx"'):
        assert named in said


@pytest.mark.parametrize("text", ['platform: "onnxruntime_onnx"', None])
def test_a_model_file_beside_the_version_folder(repository, text):
    (repository / "classifier").mkdir()
    (repository / "classifier" / "model.onnx").write_bytes(net().SerializeToString())
    if text:
        write_config(repository, "classifier", text)
    said = reason(repository)
    for named in ("model.onnx", "version folder", f"{repository}/classifier/1/model.onnx"):
        assert named in said


def test_no_version_folder(repository):
    write_config(repository, "classifier", 'platform: "onnxruntime_onnx"')
    assert "'classifier/1'" in reason(repository)


def test_a_file_that_no_backend_knows(repository):
    (repository / "classifier" / "1").mkdir(parents=True)
    (repository / "classifier" / "1" / "weights.bin").write_bytes(b"?")
    said = reason(repository)
    for named in ("classifier", "weights.bin", "model.onnx", "model.py", "backend"):
        assert named in said


def test_a_spelling_mistake_in_the_configuration(repository):
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", "max_batch_sise: 8")
    said = reason(repository)
    for named in ("config.pbtxt:1:1", "max_batch_sise", "max_batch_size"):
        assert named in said


def test_a_large_language_model_given_to_the_plain_tensorrt_backend(repository):
    (repository / "llama" / "1").mkdir(parents=True)
    (repository / "llama" / "1" / "model.plan").write_bytes(bytes(100))
    write_config(repository, "llama", 'backend: "tensorrt"')
    said = reason(repository)
    for named in ("llama", "'tensorrt'", "large language model", "vllm"):
        assert named in said


def test_a_python_model_without_outputs_says_what_came_and_what_is_known(repository):
    write_python_model(
        repository,
        "doubles",
        """
        max_batch_size: 8
        input [ { name: "input" data_type: TYPE_FP32 dims: [ -1 ] } ]
        output [ { name: "output" data_type: TYPE_FP32 dims: [ -1 ] } ]
        parameters { key: "execution" value { string_value: "inline" } }
        """,
        """
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                array = pb_utils.get_input_tensor_by_name(requests[0], "input").as_numpy()
                return [pb_utils.InferenceResponse([pb_utils.Tensor("result", array)])]
        """,
    )
    with Server(repository) as server, pytest.raises(CharoniaError) as refused:
        server.model("doubles").infer(input=np.zeros((1, 2), np.float32))
    for named in ("doubles", "result", "output"):
        assert named in str(refused.value)


WHOLE = """
    backend: "onnxruntime"
    max_batch_size: 32
    input [ { name: "input" data_type: TYPE_FP32 dims: [ 16 ] } ]
    output [ { name: "output" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(WHOLE, {1: 20}), (WHOLE + "dynamic_batching { }", {20: 1}), ("max_batch_size: 32", {20: 1})],
    ids=["not set", "set", "completed from the model"],
)
def test_statistics_show_whether_requests_join(repository, monkeypatch, text, sizes):
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "20")
    onnx_models.save(onnx_models.mlp((16, 8, 4)), repository, "plain")
    write_config(repository, "plain", text)
    with Server(repository) as server:
        model = server.model("plain")
        futures = [model.submit({"input": np.zeros((1, 16), np.float32)}) for _ in range(20)]
        for future in futures:
            future.result(PATIENCE_S)
        counted = model.statistics()
    assert counted.inference_count == 20
    assert {batch.batch_size: batch.compute_infer.count for batch in counted.batches} == sizes


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_hot_loading_under_control_mode_none_is_refused_with_a_reason(repository, verb):
    onnx_models.save(net(), repository, "classifier")
    with Server(repository, http_port=0) as server:
        url = f"http://127.0.0.1:{server.ports['http']}/v2/repository/models/classifier/{verb}"
        answer = httpx.post(url, verify=False, timeout=PATIENCE_S)
        assert answer.status_code >= 400
        for named in ("classifier", "explicit model load / unload is not allowed"):
            assert named in answer.json()["error"]
        assert server.model("classifier").ready


def test_a_request_without_the_batch_dimension_is_told_to_add_it(repository):
    onnx_models.save(net(), repository, "classifier")
    with Server(repository) as server, pytest.raises(CharoniaError) as refused:
        server.model("classifier").infer(input=np.zeros((3, 32, 32), np.float32))
    for named in ("'input'", "'classifier'", "[-1,3,32,32]", "[3,32,32]", "batch dimension", "put 1 in front"):
        assert named in str(refused.value)
