"""CUDA shared memory of another process: read and written on the GPU, and by models on the host."""

import base64
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from charonia.api import Server
from tests.every_door.test_cuda_regions import KEPT, ON_DEVICE
from tests.every_door.test_regions import FORM, PLUS_ONE
from tests.models import cuda_framework, onnx_models
from tests.models.cuda_client import CudaClient
from tests.models.repository import write_config, write_python_model

TENSORS = """
    max_batch_size: 8
    input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
    output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), folder, "onnx")
    write_config(folder, "onnx", TENSORS + "instance_group [ { count: 1 kind: KIND_GPU gpus: 0 } ]")
    for form in ("isolated", "inline"):
        host = PLUS_ONE.replace('"X"', '"OUTPUT0"')
        write_python_model(folder, f"host_{form}", FORM.format(form) + TENSORS, host)
        kept = ON_DEVICE.replace('"X"', '"OUTPUT0"')
        version = write_python_model(folder, f"kept_{form}", FORM.format(form) + KEPT + TENSORS, kept)
        (version / "fakelib.py").write_text(Path(cuda_framework.__file__).read_text())
    with Server(folder, http_port=0, grpc_port=0, allow_client_shm=True) as running:
        yield running


@pytest.fixture
def memory():
    client = CudaClient(64)
    yield client
    client.close()


@pytest.mark.parametrize(
    ("model", "added"),
    [("onnx", 0), ("host_isolated", 1), ("host_inline", 1), ("kept_isolated", 1), ("kept_inline", 1)],
)
@pytest.mark.parametrize("module", [httpclient, grpcclient], ids=["http", "grpc"])
def test_inputs_and_outputs(server, memory, module, model, added):
    port = server.ports["http" if module is httpclient else "grpc"]
    client = module.InferenceServerClient(f"127.0.0.1:{port}")
    client.register_cuda_shared_memory("g", base64.b64encode(memory.raw_handle), 0, memory.nbytes)
    tensor, output = module.InferInput("INPUT0", [1, 16], "FP32"), module.InferRequestedOutput("OUTPUT0")
    tensor.set_shared_memory("g", 64, 16)
    output.set_shared_memory("g", 64, 128)
    for number in range(5):
        given = np.arange(16) + number
        memory.write(given, start=4)
        client.infer(model, [tensor], outputs=[output])
        assert memory.read(16, start=32) == (given + added).tolist()
    client.unregister_cuda_shared_memory()
    client.close()
