"""Inputs and outputs on a device, in both forms: where they lie, what is copied, and when memory goes back."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from charonia.backends.python.child import devices, fake_device
from charonia.backends.python.child.device_tensor import DeviceTensor
from charonia.backends.python.child.errors import TritonModelException
from charonia.backends.python.child.tensor import Tensor as ModelTensor
from charonia.core.errors import InvalidArgumentError
from charonia.core.tensor import Tensor
from charonia.testing.batch import make_batch
from charonia.testing.device import FakeDevice
from tests.models import fake_framework

FRAMEWORK = {"fakelib.py": Path(fake_framework.__file__).read_text()}
KEPT = {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}
HEAD = """
import gc
import fakelib

def told(tensor):
    gc.collect()
    return {"cpu": tensor.is_cpu(), "downloads": fakelib.downloads(), "allocated": fakelib.allocated(),
            "opened": fakelib.opened()}
"""
ADD = (
    HEAD
    + """
class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        tensor = request.inputs()[0]
        if tensor.is_cpu():
            made = pb_utils.Tensor("Y", tensor.as_numpy() + 1)
        else:
            made = pb_utils.Tensor.from_dlpack("Y", fakelib.Array(fakelib.look(tensor) + 1))
        return pb_utils.InferenceResponse([made], parameters=told(tensor))
"""
)
ECHO = (
    HEAD
    + """
class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request.inputs()[0]) for request in requests]

    def one(self, tensor):
        made = pb_utils.Tensor.from_dlpack("Y", tensor.to_dlpack())
        return pb_utils.InferenceResponse([made], parameters=told(tensor))
"""
)
LARGE = 50_000  # more than travels in a frame


@pytest.fixture
def device():
    return FakeDevice()


def placed(device, array, name="X"):
    array = np.asarray(array, np.float32)
    return Tensor(name, "FP32", array.shape, device.place(array))


def run(served, *tensors):
    return make_batch(*({"X": tensor} for tensor in tensors), keep_lent=True).run(served.instance)


def answered(batch, index=0):
    """(the output, the parameters)"""
    reply = batch.answers[index]
    assert reply.error is None, reply.error
    (output,) = reply.outputs
    return output, reply.parameters


@pytest.mark.parametrize("size", [3, LARGE])
def test_a_model_computes_on_the_device_without_a_copy_to_the_host(serve, device, size):
    served = serve(ADD, parameters=KEPT, files=FRAMEWORK)
    output, told = answered(run(served, placed(device, np.zeros(size))))
    assert (output.buffer.device, output.buffer.nbytes, output.buffer.owned) == ("fake:0", size * 4, True)
    assert (told["cpu"], device.downloads) == (False, 0)
    assert told["downloads"] == 0 or served.context.config.parameters["execution"].string_value == "inline"
    assert device.array(output).tolist() == [1] * size
    assert device.downloads == 0
    assert output.numpy().tolist() == [1] * size
    assert device.downloads == 1


@pytest.mark.parametrize("parameters", [{}, {"FORCE_CPU_ONLY_INPUT_TENSORS": "yes"}])
def test_by_default_inputs_come_to_the_host_by_one_copy(serve, device, parameters):
    output, told = answered(run(serve(ADD, parameters=parameters, files=FRAMEWORK), placed(device, [1, 2])))
    assert (output.buffer.device, told["cpu"], device.downloads) == ("cpu", True, 1)
    assert output.numpy().tolist() == [2, 3]


def test_inputs_on_the_host_stay_there(serve, device):
    _, told = answered(run(serve(ADD, parameters=KEPT, files=FRAMEWORK), np.zeros(2, np.float32)))
    assert (told["cpu"], device.uploads) == (True, 0)


def test_a_batch_of_both(serve, device):
    served = serve(ADD, parameters=KEPT, files=FRAMEWORK)
    batch = run(served, placed(device, [1]), np.array([2], np.float32), placed(device, [3, 3]), placed(device, []))
    outputs = [answered(batch, index)[0] for index in range(4)]
    assert [output.buffer.device for output in outputs[:3]] == ["fake:0", "cpu", "fake:0"]
    assert device.downloads == 0
    assert [output.numpy().tolist() for output in outputs] == [[2], [3], [4, 4], []]


@pytest.mark.parametrize("value", ["", "maybe"])
def test_another_value_is_refused(workshop, value):
    with pytest.raises(InvalidArgumentError, match=r"'m'.*'FORCE_CPU_ONLY_INPUT_TENSORS' must be yes or no"):
        workshop.serve(ADD, parameters={"FORCE_CPU_ONLY_INPUT_TENSORS": value}, files=FRAMEWORK)


def test_an_input_that_is_passed_on_is_the_same_memory(serve, device):
    served = serve(ECHO, parameters=KEPT, files=FRAMEWORK)
    given = placed(device, [1, 2, 3])
    output, _ = answered(run(served, given))
    assert output.buffer.address == given.buffer.address
    assert device.downloads == 0


def test_what_a_model_can_not_do_with_a_tensor_on_a_device(serve, device):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", requests[0].inputs()[0].as_numpy())])]
    """
    batch = run(serve(code, parameters=KEPT), placed(device, [1]))
    assert "Tensor is stored in GPU and cannot be converted to NumPy" in str(batch.error())
    assert "'X'" in str(batch.error())
    assert device.downloads == 0


def test_memory_of_inputs_goes_back_when_the_model_has_let_go(workshop, device):
    served = workshop.serve(ADD, parameters=KEPT, files=FRAMEWORK)
    for _ in range(3):
        tensor = placed(device, [1])
        memory = weakref.ref(tensor.buffer._holder)
        _, told = answered(run(served, tensor))
        del tensor
        gc.collect()
        assert memory() is None
        assert told["opened"] == 1


def test_memory_of_outputs_is_kept_until_nobody_uses_it_and_freed_with_the_next_batch(workshop, device):
    served = workshop.serve(ADD, parameters=KEPT, files=FRAMEWORK)
    first, _ = answered(run(served, placed(device, [1])))
    told = answered(run(served, placed(device, [2])))[1]
    assert told["allocated"] == 2, "the first output and what is answered now"
    assert device.array(first).tolist() == [2]
    del first
    gc.collect()
    told = answered(run(served, placed(device, [3])))[1]
    assert told["allocated"] == 1
    gc.collect()
    assert not fake_device._opened


def test_an_input_passed_on_outlives_the_request_that_brought_it(workshop, device):
    served = workshop.serve(ECHO, parameters=KEPT, files=FRAMEWORK)
    tensor = placed(device, [7, 8])
    memory = weakref.ref(tensor.buffer._holder)
    output, _ = answered(run(served, tensor))
    del tensor
    gc.collect()
    assert device.array(output).tolist() == [7, 8]
    del output
    for _ in range(2):  # the process learns that its output has gone, and then says that it needs the input no longer
        run(served, placed(device, [0]))
        gc.collect()
    assert memory() is None


def test_from_process_to_process_the_server_opens_nothing(workshop, device):
    first = workshop.serve(ADD, name="first", parameters=KEPT, files=FRAMEWORK)
    second = workshop.serve(ADD, name="second", parameters=KEPT, files=FRAMEWORK)
    middle, _ = answered(run(first, placed(device, [1])))
    assert middle.buffer._address is None
    output, told = answered(run(second, Tensor("X", "FP32", middle.shape, middle.buffer)))
    assert middle.buffer._address is None
    assert (told["cpu"], told["downloads"], device.downloads) == (False, 0, 0)
    assert device.array(output).tolist() == [3]


def test_a_process_that_dies_holds_nothing(workshop, device):
    code = (
        HEAD
        + """
class TritonPythonModel:
    def execute(self, requests):
        os._exit(3)
    """
    )
    served = workshop.serve(code, parameters=KEPT, files=FRAMEWORK)
    tensor = placed(device, [1])
    memory = weakref.ref(tensor.buffer._holder)
    batch = run(served, tensor)
    assert "exited with code 3" in str(batch.error())
    del tensor, batch
    served.unload()
    gc.collect()
    assert memory() is None


def test_the_servers_memory_outlives_the_process_that_it_went_through(workshop, device):
    served = workshop.serve(ECHO, parameters=KEPT, files=FRAMEWORK)
    tensor = placed(device, [5, 6])
    memory = weakref.ref(tensor.buffer._holder)
    output, _ = answered(run(served, tensor))
    del tensor
    served.unload()
    gc.collect()
    assert output.numpy().tolist() == [5, 6]
    del output
    gc.collect()
    assert memory() is None


def test_own_memory_that_nobody_holds_is_an_error(device):
    handle = device.place(np.zeros(2)).handle()
    gc.collect()
    with pytest.raises(devices.DeviceError, match="memory on fake:0 has gone"):
        devices.Opened(handle, 16, [], 0).host()


def test_memory_of_a_process_that_has_gone_is_an_error_and_no_garbage(workshop, device):
    served = workshop.serve(ADD, parameters=KEPT, files=FRAMEWORK)
    output, _ = answered(run(served, placed(device, [1])))
    served.unload()
    with pytest.raises(devices.DeviceError, match="can't be opened"):
        output.numpy()


def test_decoupled_responses_stay_on_the_device(serve, device):
    code = (
        HEAD
        + """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, tensor = request.get_response_sender(), request.inputs()[0]
            for number in range(3):
                made = pb_utils.Tensor.from_dlpack("Y", fakelib.Array(fakelib.look(tensor) + number))
                sender.send(pb_utils.InferenceResponse([made]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """
    )
    served = serve(code, parameters=KEPT, files=FRAMEWORK, decoupled=True)
    batch = run(served, placed(device, [1]))
    outputs = [reply.outputs[0] for reply in batch.responses[0]]
    assert [device.array(output).tolist() for output in outputs] == [[1], [2], [3]]
    assert device.downloads == 0


def test_a_device_that_can_not_give_memory_away_goes_by_the_host(workshop, device, monkeypatch):
    def refused(index, address):
        raise devices.DeviceError("no")

    served = workshop.serve(ADD, parameters=KEPT, files=FRAMEWORK)
    monkeypatch.setattr(fake_device, "export", refused)
    output, told = answered(run(served, placed(device, [1])))
    assert (told["cpu"], device.downloads, output.numpy().tolist()) == (True, 1, [2])


def test_a_part_of_memory_that_was_opened_has_a_handle_too(device):
    array = np.arange(10, dtype=np.float32)
    whole = device.place(array)
    name, _, address, data, offset = whole.handle()
    released = []
    opened = devices.Opened((name, b"another", address, data, offset), 40, released, 5)
    part = devices.Local(name, opened.address + 8, 12, opened)
    assert part.handle() == (name, b"another", address + 8, data, 8)
    assert np.frombuffer(part.host(), np.float32).tolist() == [2, 3, 4]
    del opened, part
    gc.collect()
    assert released == [5]
    assert not fake_device._opened


def test_a_tensor_on_a_device_in_every_respect(device):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    tensor = DeviceTensor("T", "INT16", (2, 3), device.place(array))
    assert (tensor.name(), tensor.shape(), tensor.triton_dtype(), tensor.is_cpu()) == ("T", [2, 3], 7, False)
    assert tensor.__dlpack_device__() == (12, 0)
    again = ModelTensor.from_dlpack("U", tensor)
    assert (type(again), again._datatype, again.shape()) == (DeviceTensor, "INT16", [2, 3])
    assert fake_framework.look(again).tolist() == array.tolist()
    assert device.downloads == 0


def test_only_contiguous_memory_is_taken_from_a_device(device):
    array = fake_framework.Array(np.zeros((2, 3), np.float32))
    for strides, taken in [((3, 1), True), ((1, 2), False), ((6, 2), False)]:
        array.strides = strides
        if taken:
            assert ModelTensor.from_dlpack("T", array).shape() == [2, 3]
        else:
            with pytest.raises(TritonModelException, match="'T' on fake:0 is not contiguous"):
                ModelTensor.from_dlpack("T", array)


def test_an_unknown_device_is_named():
    with pytest.raises(devices.DeviceError, match="device 'tpu:0' is not known"):
        devices.driver_of("tpu:0")
