"""CUDA shared memory: the calls without a GPU, and everything over a stand-in for the driver's library."""

import base64
import gc
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from charonia.backends.python.child import cuda
from tests.every_door.test_regions import FORM, ONE, PLUS_ONE, WAYS, place
from tests.models import cuda_framework, standin_driver
from tests.models.cuda_client import CudaClient
from tests.models.repository import write_config, write_python_model

NUMBERS = ONE.format("TYPE_FP32", "[ -1 ]")
ON_DEVICE = """
import fakelib
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request.inputs()[0]) for request in requests]

    def one(self, tensor):
        assert not tensor.is_cpu()
        return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("X", fakelib.Array(fakelib.look(tensor) + 1))])
"""
KEPT = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return standin_driver.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def standin(library, monkeypatch):
    with standin_driver.in_place(library, monkeypatch):
        yield


@pytest.fixture
def running(tmp_path, standin):
    write_config(tmp_path, "same", 'backend: "identity"\n' + NUMBERS)
    (tmp_path / "same" / "1").mkdir()
    for form in ("isolated", "inline"):
        write_python_model(tmp_path, f"host_{form}", FORM.format(form) + NUMBERS, PLUS_ONE)
        version = write_python_model(tmp_path, f"kept_{form}", FORM.format(form) + KEPT + NUMBERS, ON_DEVICE)
        (version / "fakelib.py").write_text(Path(cuda_framework.__file__).read_text())
    with Server(tmp_path, http_port=0, grpc_port=0, allow_client_shm=True) as server:
        yield server


@pytest.fixture
def memory(running):
    client = CudaClient(64)
    yield client
    client.close()


@pytest.fixture(params=WAYS)
def way(request, running):
    opened = WAYS[request.param](running)
    yield opened
    opened.client.unregister_cuda_shared_memory()
    opened.close()
    gc.collect()
    assert cuda_framework.opened() == 0


def register(way, memory, name="g", **changed):
    handle, device, nbytes = memory.raw_handle, 0, memory.nbytes
    given = {"raw_handle": handle, "device_id": device, "byte_size": nbytes} | changed
    given["raw_handle"] = base64.b64encode(given["raw_handle"])
    way.client.register_cuda_shared_memory(name, **given)


@pytest.mark.parametrize(
    ("model", "added"),
    [("same", 0), ("host_isolated", 1), ("host_inline", 1), ("kept_isolated", 1), ("kept_inline", 1)],
)
def test_inputs_and_outputs(way, memory, model, added):
    register(way, memory)
    for number in range(3):
        memory.write([number, 2, 3], start=5)
        code, said = way.ask(model, {"A": ("FP32", [3], place("g", 12, 20))}, {"X": place("g", 12, 100)})
        assert code == "OK", said
        assert memory.read(3, start=25) == [number + added, 2 + added, 3 + added]


def test_the_state(way, memory):
    register(way, memory, byte_size=8)
    if way.name == "http":
        assert way.client.get_cuda_shared_memory_status() == [{"name": "g", "device_id": 0, "byte_size": 8}]
        assert way.client.get_cuda_shared_memory_status("g") == [{"name": "g", "device_id": 0, "byte_size": 8}]
    else:
        (region,) = way.client.get_cuda_shared_memory_status().regions.values()
        assert (region.name, region.device_id, region.byte_size) == ("g", 0, 8)
    assert way.names() == []
    with pytest.raises(InferenceServerException, match="'g' is registered as CUDA shared memory, not system"):
        way.client.get_system_shared_memory_status("g")
    way.client.unregister_system_shared_memory()
    way.client.unregister_system_shared_memory("g")
    with pytest.raises(InferenceServerException, match="'g' already in manager"):
        register(way, memory)
    way.client.unregister_cuda_shared_memory("g")
    with pytest.raises(InferenceServerException, match="Unable to find cuda shared memory region: 'g'"):
        way.client.get_cuda_shared_memory_status("g")


def test_a_region_needs_a_name(running, memory):
    url = f"http://127.0.0.1:{running.ports['http']}/v2/cudasharedmemory/register"
    handle = {"b64": base64.b64encode(memory.raw_handle).decode()}
    body = json.dumps({"raw_handle": handle, "device_id": 0, "byte_size": 8}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, body, timeout=10)
    assert (refused.value.code, "'region name' is necessary" in refused.value.read().decode()) == (400, True)


def test_what_can_not_be_registered(way, memory):
    for changed in ({"device_id": 1}, {"byte_size": 0}, {"byte_size": 257}, {"raw_handle": b"x" * 64}):
        with pytest.raises(InferenceServerException, match="failed to register shared memory region 'g': invalid args"):
            register(way, memory, **changed)
    with pytest.raises(InferenceServerException, match="valid base64 encoded cudaIpcMemHandle_t of 64 bytes, got 63"):
        register(way, memory, raw_handle=b"x" * 63)


def test_places_outside_are_refused(way, memory):
    register(way, memory)
    for parameters, error in [
        (place("g", 12, 245), "Invalid offset + byte size"),
        (place("g", 12, 256), "Invalid offset for"),
    ]:
        for inputs, outputs in [(parameters, place("g", 12)), (place("g", 12), parameters)]:
            code, said = way.ask("same", {"A": ("FP32", [3], inputs)}, {"X": outputs})
            assert (code, error in said) == ("INVALID_ARGUMENT", True)


def test_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "LIBRARY", "libcuda_that_is_not_there.so")
    cuda._driver.cache_clear()
    with Server(tmp_path, http_port=0, grpc_port=0, allow_client_shm=True) as server:
        http = httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}")
        grpc = grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}")
        for client in (http, grpc):
            with pytest.raises(InferenceServerException, match=r"failed to register CUDA .*'g', GPUs not supported"):
                client.register_cuda_shared_memory("g", base64.b64encode(b"x" * 64), 0, 8)
            client.unregister_cuda_shared_memory()
            client.unregister_cuda_shared_memory("g")
            with pytest.raises(InferenceServerException, match="Unable to find cuda shared memory region: 'g'"):
                client.get_cuda_shared_memory_status("g")
            client.close()
    cuda._driver.cache_clear()
