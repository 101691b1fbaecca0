"""Sessions whose tensors stay on a GPU, with host memory in the GPU's place: ONNX Runtime binds both the same way."""

import ctypes
from typing import Any

import numpy as np
import onnx_models
import pytest
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

from charonia.backends.onnxruntime import model
from charonia.backends.onnxruntime.on_gpu import Gpu, GpuInstance, can_stay
from charonia.backends.onnxruntime.signature import signature_of
from charonia.backends.python.child.devices import Local
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, Tensor

BATCHED = "max_batch_size: 8"


class Placed(Local):
    """An input on the GPU, which nobody may copy to the host."""

    __slots__ = ()

    def host(self) -> Any:
        raise AssertionError("copied to the host")


class World:
    """A model on the GPU that is none. `copies` are those that join a batch."""

    def __init__(self, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._serve = serve
        self._patch = monkeypatch
        self.copies: list[int] = []
        self.unsettled = 0

    def serve(self, graph: Any, config: str = "") -> Any:
        gpu = Gpu("gpu:0", "cpu", 0, self._copy, self._settle)
        self._patch.setattr(model, "OnnxRuntimeInstance", lambda *args, **kwargs: GpuInstance(*args, **kwargs, gpu=gpu))
        return self._serve(graph, config)

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)
        self.copies.append(nbytes)
        self.unsettled += 1

    def _settle(self) -> None:
        self.unsettled = 0


@pytest.fixture
def world(serve: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(serve, monkeypatch)


def placed(name: str, array: Array, device: str = "gpu:0") -> Tensor:
    tensor = Tensor.from_numpy(name, array)
    tensor.buffer = Placed(device, array.ctypes.data, array.nbytes, array)
    return tensor


def inner(runner: Any) -> None:
    """What is asked from now on comes from another model."""
    made = runner._request

    def request(*args: Any) -> InferRequest:
        found: InferRequest = made(*args)
        found.ancestors = ("ensemble",)
        return found

    runner._request = request


@pytest.mark.parametrize("datatype", [name for name in onnx_models.ONNX_TYPES if name not in ("BYTES", "BF16")])
@pytest.mark.parametrize("rows", [(2,), (1, 3, 1)])
def test_what_lies_on_the_gpu_is_used_there_and_stays_there(world: World, datatype: str, rows: tuple[int, ...]) -> None:
    runner = world.serve(onnx_models.identity(datatype), BATCHED)
    arrays = [onnx_models.sample(datatype, (count, 5), count) for count in rows]
    replies = runner.run_tensors(*[{"INPUT0": placed("INPUT0", array)} for array in arrays])
    outputs = [reply.outputs[0] for reply in replies]
    assert [output.buffer.device for output in outputs] == ["gpu:0"] * len(rows)
    assert world.copies == ([array.nbytes for array in arrays] if len(rows) > 1 else [])
    assert world.unsettled == 0
    for output, array in zip(outputs, arrays, strict=True):
        assert output.shape == array.shape
        assert ctypes.string_at(output.buffer.address, output.buffer.nbytes) == array.tobytes()
        np.testing.assert_array_equal(output.numpy(), array)


def test_a_batch_from_both_places(world: World) -> None:
    runner = world.serve(onnx_models.add_sub(), BATCHED)
    left = [np.full((1, 16), number, np.float32) for number in range(3)]
    right = [np.full((1, 16), 10, np.float32)] * 3
    inputs = [
        {"INPUT0": placed("INPUT0", left[0]), "INPUT1": Tensor.from_numpy("INPUT1", right[0])},
        {"INPUT0": Tensor.from_numpy("INPUT0", left[1]), "INPUT1": Tensor.from_numpy("INPUT1", right[1])},
        {"INPUT0": placed("INPUT0", left[2]), "INPUT1": Tensor.from_numpy("INPUT1", right[2])},
    ]
    replies = runner.run_tensors(*inputs)
    for number, reply in enumerate(replies):
        assert [tensor.buffer.device for tensor in reply.outputs] == ["gpu:0", "gpu:0"]
        assert [tensor.numpy()[0, 0] for tensor in reply.outputs] == [number + 10, number - 10]


def test_outputs_for_other_models_stay_and_those_for_clients_do_not(world: World) -> None:
    runner = world.serve(onnx_models.add_sub(), BATCHED)
    given = {"INPUT0": np.ones((2, 16), np.float32), "INPUT1": np.ones((2, 16), np.float32)}
    assert [tensor.buffer.device for tensor in runner.run(given)[0].outputs] == ["cpu", "cpu"]
    inner(runner)
    made = runner.run(given, requested=[("OUTPUT1",)])[0].outputs
    assert [(tensor.name, tensor.buffer.device) for tensor in made] == [("OUTPUT1", "gpu:0")]
    assert made[0].numpy().tolist() == np.zeros((2, 16)).tolist()


def test_a_batch_is_copied_to_the_host_once_for_all(world: World) -> None:
    runner = world.serve(onnx_models.identity("FP32"), BATCHED)
    inner(runner)
    first, second = [reply.outputs[0] for reply in runner.run(*[{"INPUT0": np.ones((1, 4), np.float32)}] * 2)]
    assert first.buffer.host().obj is second.buffer.host().obj


def test_strings_are_on_the_host(world: World) -> None:
    node = helper.make_node("Cast", ["X"], ["TEXT"], to=TensorProto.STRING)
    ios = [onnx_models._value("X", "INT32", ["N", 2])], [onnx_models._value("TEXT", "BYTES", ["N", 2])]
    runner = world.serve(onnx_models._model("texts", [node], *ios), BATCHED)
    for count in (1, 2):
        arrays = [np.array([[number, 7]], np.int32) for number in range(count)]
        replies = runner.run_tensors(*[{"X": placed("X", array)} for array in arrays])
        for number, reply in enumerate(replies):
            assert reply.outputs[0].buffer.device == "cpu"
            assert reply.outputs[0].numpy().tolist() == [[str(number).encode(), b"7"]]


@pytest.mark.parametrize(("datatype", "stays"), [("FP16", True), ("BOOL", True), ("BYTES", False), ("BF16", False)])
def test_which_models_stay(datatype: str, stays: bool) -> None:
    session = InferenceSession(onnx_models.identity(datatype).SerializeToString())
    assert can_stay(signature_of(session, "m", [])) is stays


def test_inputs_without_elements(world: World) -> None:
    runner = world.serve(onnx_models.identity("FP32"), BATCHED)
    empty = np.zeros((1, 0), np.float32)
    (reply,) = runner.run_tensors({"INPUT0": Tensor.from_numpy("INPUT0", empty)})
    inner(runner)
    (other,) = runner.run_tensors({"INPUT0": Tensor.from_numpy("INPUT0", empty)})
    for made in (reply, other):
        assert (made.outputs[0].shape, made.outputs[0].numpy().tolist()) == ((1, 0), [[]])


def test_scalars(world: World) -> None:
    runner = world.serve(onnx_models.scalar(), "")
    name, output = runner.config.input[0].name, runner.config.output[0].name
    given = np.array([3], np.float32)
    expected = runner.run({name: given})[0].outputs[0]
    inner(runner)
    made = runner.run_tensors({name: placed(name, given)})[0].outputs[0]
    assert (made.name, made.shape, made.numpy().tolist()) == (output, expected.shape, expected.numpy().tolist())


def test_another_gpus_memory_comes_by_the_host(world: World) -> None:
    runner = world.serve(onnx_models.identity("FP32"), BATCHED)
    inner(runner)
    tensor = Tensor.from_numpy("INPUT0", np.ones((1, 2), np.float32))
    array = tensor.numpy()
    tensor.buffer = type("Far", (Local,), {"host": lambda self: array.tobytes()})("gpu:1", 0, 8, None)
    assert runner.run_tensors({"INPUT0": tensor})[0].outputs[0].numpy().tolist() == [[1, 1]]


def test_a_value_that_makes_the_run_fail_fails_only_its_own_request(world: World) -> None:
    runner = world.serve(onnx_models.looked_up(), BATCHED)
    indices = [np.array([[index]], np.int64) for index in (1, 9, 3)]
    first, wrong, last = runner.run_tensors(*[{"INDEX": placed("INDEX", index)} for index in indices])
    assert "model 'm' failed in ONNX Runtime" in str(wrong.error)
    assert [reply.outputs[0].numpy().tolist() for reply in (first, last)] == [[[20.0]], [[40.0]]]


@pytest.mark.parametrize("requests", [1, 2])
def test_outputs_that_do_not_keep_the_rows_are_refused(world: World, requests: int) -> None:
    runner = world.serve(onnx_models.doubled(), BATCHED)
    arrays = [np.ones((1, 4), np.float32)] * requests
    for reply in runner.run_tensors(*[{"X": placed("X", array)} for array in arrays]):
        assert "output 'TWICE' with shape [2, 4]" in str(reply.error)
