"""Tensors that stay on the GPU between models: ONNX Runtime to ONNX Runtime, to processes of Python models and back."""

from pathlib import Path

import numpy as np
import pytest

from charonia.api import Server
from charonia.backends.onnxruntime import on_gpu
from tests.models import cuda_framework, onnx_models
from tests.models.repository import write_config, write_python_model

TENSORS = """
    max_batch_size: 8
    input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
    output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
"""
KEPT = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
ADD = """
import fakelib
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.isolated = not args["model_name"].startswith("inline")

    def execute(self, requests):
        answers = [pb_utils.InferenceResponse([self.one(request.inputs()[0])]) for request in requests]
        assert not self.isolated or fakelib.downloads() == 0
        return answers

    def one(self, tensor):
        assert not tensor.is_cpu()
        assert tensor.__dlpack_device__() == (2, 0)
        return pb_utils.Tensor.from_dlpack("OUTPUT0", fakelib.Array(fakelib.look(tensor) + np.float32(1), skip=4))
"""
HOST = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", request.inputs()[0].as_numpy() + 1)])
            for request in requests
        ]
"""
# Where the caller starts: from host memory to a model on the GPU, and on with what that gave.
CALLS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.one(request.inputs()[0])]) for request in requests]

    def one(self, tensor):
        for model in ("onnx", "keeps", "onnx"):
            assert tensor.is_cpu() == (model == "onnx" and tensor.name() == "INPUT0")
            given = tensor if tensor.is_cpu() else pb_utils.Tensor.from_dlpack("INPUT0", tensor.to_dlpack())
            request = pb_utils.InferenceRequest(
                model_name=model, requested_output_names=["OUTPUT0"], inputs=[given]
            )
            response = request.exec()
            assert not response.has_error(), response.error().message()
            tensor = response.output_tensors()[0]
        return pb_utils.Tensor.from_dlpack("OUTPUT0", tensor.to_dlpack())
"""


def ensemble(folder, name, *models):
    tensors = ["INPUT0", *(f"t{number}" for number in range(1, len(models))), "OUTPUT0"]
    steps = "".join(
        f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "INPUT0" value: "{source}" }} '
        f'output_map {{ key: "OUTPUT0" value: "{target}" }} }}\n'
        for model, source, target in zip(models, tensors, tensors[1:], strict=False)
    )
    (write_config(folder, name, f'platform: "ensemble" {TENSORS} ensemble_scheduling {{ {steps} }}') / "1").mkdir()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), folder, "onnx")
    write_config(
        folder, "onnx", TENSORS + "dynamic_batching { } instance_group [ { count: 1 kind: KIND_GPU gpus: 0 } ]"
    )
    framework = Path(cuda_framework.__file__).read_text()
    for name, code, more in [
        ("keeps", ADD, KEPT),
        ("inline", ADD, KEPT + INLINE),
        ("host", HOST, ""),
        ("calls", CALLS, ""),
    ]:
        version = write_python_model(folder, name, TENSORS + more, code)
        (version / "fakelib.py").write_text(framework)
    ensemble(folder, "two", "onnx", "onnx")
    ensemble(folder, "ends", "onnx", "host")
    ensemble(folder, "processes", "onnx", "keeps", "keeps")
    ensemble(folder, "round", "onnx", "keeps", "onnx", "inline", "keeps", "onnx")
    with Server(folder) as running:
        yield running


@pytest.fixture
def copies(monkeypatch):
    """Counts copies to the host that the server makes: of ONNX Runtime's values, and of other memory."""
    found = {"values": 0}
    copied, before = on_gpu._Output.host, cuda_framework.downloads()

    def host(output):
        found["values"] += output._copy is None
        return copied(output)

    monkeypatch.setattr(on_gpu._Output, "host", host)
    return lambda: found["values"] + cuda_framework.downloads() - before


@pytest.mark.parametrize(("model", "added"), [("two", 0), ("ends", 1), ("processes", 2), ("round", 3), ("calls", 1)])
def test_one_copy_to_the_host_and_no_more(server, copies, model, added):
    given = np.random.default_rng(1).integers(0, 100, (3, 16)).astype(np.float32)  # exact, in whatever order
    np.testing.assert_array_equal(server.model(model).infer(INPUT0=given)["OUTPUT0"], given + np.float32(added))
    assert copies() == 1


def test_a_batch_of_many_is_joined_on_the_gpu(server, copies):
    rows = [np.full((1, 16), number, np.float32) for number in range(16)]
    futures = [server.model("round").submit({"INPUT0": row}) for row in rows]
    for future, row in zip(futures, rows, strict=True):
        assert future.result(60).outputs["OUTPUT0"].numpy().tolist() == (row + 3).tolist()
    assert copies() <= len(rows), "one for each batch of the last step"


def test_memory_comes_back(server):
    """Hundreds of large outputs, each in device memory: none is kept."""
    nvml = pytest.importorskip("pynvml")
    nvml.nvmlInit()
    card = nvml.nvmlDeviceGetHandleByIndex(0)
    given = np.zeros((8, 16), np.float32)
    model = server.model("round")
    for _ in range(20):
        model.infer(INPUT0=given)
    before = nvml.nvmlDeviceGetMemoryInfo(card).used
    for _ in range(300):
        model.infer(INPUT0=given)
    assert nvml.nvmlDeviceGetMemoryInfo(card).used - before < 64 << 20
