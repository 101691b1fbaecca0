"""Memory of a GPU between processes, against a stand-in for the driver's library, which is called by the same C
interface. Needs a C compiler."""

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from charonia.backends.python.child import cuda, devices
from charonia.core.tensor import Tensor
from charonia.testing.batch import make_batch
from tests.models import cuda_framework, standin_driver

FRAMEWORK = {"fakelib.py": Path(cuda_framework.__file__).read_text()}
KEPT = {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}
pytestmark = pytest.mark.skipif(standin_driver.COMPILER is None, reason="no C compiler")
ADD = """
import fakelib

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        tensor = request.inputs()[0]
        told = {"cpu": tensor.is_cpu()}
        if tensor.is_cpu():
            made = pb_utils.Tensor("Y", tensor.as_numpy() + 1)
        else:
            made = pb_utils.Tensor.from_dlpack("Y", fakelib.Array(fakelib.look(tensor) + 1, skip=2))
            told.update(device=str(tensor.__dlpack_device__()), opened=fakelib.opened(), downloads=fakelib.downloads())
        return pb_utils.InferenceResponse([made], parameters=told)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return standin_driver.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def standin(library, monkeypatch):
    with standin_driver.in_place(library, monkeypatch):
        yield cuda_framework


def placed(array, pool=False):
    array = np.asarray(array, np.float32)
    made = cuda_framework.Array(array, skip=3, pool=pool)
    return Tensor("X", "FP32", array.shape, devices.Local("gpu:0", made.address, array.nbytes, made))


def run(served, tensor):
    reply = make_batch({"X": tensor}, keep_lent=True).run(served.instance).answers[0]
    assert reply.error is None, reply.error
    return reply.outputs[0], reply.parameters


def passed(output):
    return Tensor("X", "FP32", output.shape, output.buffer)


def test_two_processes_and_the_server_hand_memory_over(workshop, standin):
    first = workshop.serve(ADD, name="first", parameters=KEPT, files=FRAMEWORK)
    second = workshop.serve(ADD, name="second", parameters=KEPT, files=FRAMEWORK)
    for number in range(3):
        middle, told = run(first, placed([number, 2]))
        assert (told["device"], told["opened"], told["downloads"]) == ("(2, 0)", 1, 0)
        output, told = run(second, passed(middle))
        assert (told["device"], told["opened"], told["downloads"]) == ("(2, 0)", 1, 0)
        assert (output.buffer.device, standin.opened()) == ("gpu:0", 0)
        before = standin.downloads()
        assert output.numpy().tolist() == [number + 2, 4]
        assert (standin.opened(), standin.downloads() - before) == (1, 1)
        del output, middle
        gc.collect()
        assert standin.opened() == 0


def test_memory_comes_back_to_the_process_that_made_it(workshop, standin):
    """It must not open a handle of its own: CUDA refuses that."""
    served = workshop.serve(ADD, parameters=KEPT, files=FRAMEWORK)
    once, _ = run(served, placed([1]))
    twice, told = run(served, passed(once))
    assert told["opened"] == 0
    assert twice.numpy().tolist() == [3]


def test_memory_that_was_opened_twice_is_closed_twice(library, standin):
    tensor = placed([1, 2])
    code = f"""
import ctypes
from charonia.backends.python.child import cuda, devices
cuda.LIBRARY = {str(library)!r}
released = []
both = [devices.Opened({tensor.buffer.handle()!r}, 8, released, key) for key in (1, 2)]
assert both[0].address == both[1].address
assert bytes(both.pop().host()) == {tensor.numpy().tobytes()!r}
assert ctypes.CDLL(cuda.LIBRARY).standin_opened() == 1
both.clear()
assert ctypes.CDLL(cuda.LIBRARY).standin_opened() == 0
assert released == [2, 1]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_memory_of_a_pool_goes_by_the_host(workshop, standin):
    served = workshop.serve(ADD, parameters=KEPT, files=FRAMEWORK)
    output, told = run(served, placed([1], pool=True))
    assert (told["cpu"], output.numpy().tolist()) == (True, [2])


def test_both_kinds_of_copies(standin):
    tensor = placed([1, 2, 3])
    source = np.array([8, 9], np.float32)
    cuda.copy(0, tensor.buffer.address + 4, source.ctypes.data, 8)
    assert tensor.numpy().tolist() == [1, 8, 9]
    cuda.copy(0, tensor.buffer.address, tensor.buffer.address + 8, 4)
    cuda.settle(0)
    assert tensor.numpy().tolist() == [9, 8, 9]


def test_what_the_driver_refuses_is_told_in_its_words(standin):
    with pytest.raises(devices.DeviceError, match=r"cuMemcpyDtoH_v2: invalid argument \(1\)"):
        cuda.download(0, 4096, 8)
    with pytest.raises(devices.DeviceError, match="cuDevicePrimaryCtxRetain"):
        cuda.settle(1)


def test_without_a_driver_it_is_said_so(monkeypatch):
    monkeypatch.setattr(cuda, "LIBRARY", "libcuda-that-is-not-there.so")
    cuda._driver.cache_clear()
    with pytest.raises(devices.DeviceError, match="memory of a GPU can't be used here"):
        cuda.settle(0)
    assert devices.Local("gpu:0", 4096, 8, None).handle() is None
    cuda._driver.cache_clear()


def test_every_function_is_called_as_the_driver_declares_it():
    assert ctypes.sizeof(cuda._IpcHandle) == 64
    by_value = cuda._SIGNATURES["cuIpcOpenMemHandle_v2"][1]
    assert by_value is cuda._IpcHandle
