"""DLPack both ways: with numpy, which stands for every other library, and with what numpy can't do."""

import gc
import sys

import ml_dtypes
import numpy as np
import pytest

from charonia.backends.python.child import dlpack
from charonia.backends.python.child.errors import TritonModelException
from charonia.backends.python.child.tensor import Tensor

TYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


class Capsule:
    """A library's tensor, seen only by its DLPack methods."""

    def __init__(self, capsule, device=(1, 0)):
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


@pytest.mark.parametrize("dtype", TYPES)
def test_numpy_reads_our_tensors_without_a_copy(dtype):
    array = np.array([[0, 1], [1, 0]], dtype)
    taken = np.from_dlpack(Tensor("X", array))
    np.testing.assert_array_equal(taken, array)
    array[0, 0] = 1
    assert taken[0, 0] == 1


@pytest.mark.parametrize("dtype", TYPES)
def test_we_read_numpys_arrays_without_a_copy(dtype):
    array = np.array([[0, 1], [1, 0]], dtype)
    for source in (array, array.__dlpack__()):
        tensor = Tensor.from_dlpack("X", source)
        np.testing.assert_array_equal(tensor.as_numpy(), array)
        assert tensor.as_numpy().dtype == array.dtype
        assert np.shares_memory(tensor.as_numpy(), array)


def test_strides_are_followed():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert Tensor.from_dlpack("X", array).as_numpy().tolist() == array.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (1, 0), (0, 0, 2), (1, 0, 2)])
def test_shapes_with_zeros_and_none(shape):
    array = np.zeros(shape, np.float32)
    assert np.from_dlpack(Tensor("X", array)).shape == shape
    assert Tensor.from_dlpack("X", array).as_numpy().shape == shape
    assert Tensor.from_dlpack("X", Tensor("Y", array)).as_numpy().shape == shape


def test_bf16_both_ways():
    array = np.array([1.5, -2, 3], ml_dtypes.bfloat16)
    tensor = Tensor.from_dlpack("Y", Tensor("X", array))
    assert tensor.triton_dtype() == 14
    assert tensor.as_numpy().tolist() == [1.5, -2, 3]


def test_memory_lives_as_long_as_either_side_needs_it():
    taken = np.from_dlpack(Tensor("X", np.full(100_000, 7, np.int64)))
    ours = Tensor.from_dlpack("Y", np.full(100_000, 8, np.int64))
    gc.collect()
    assert (taken.min(), taken.max()) == (7, 7)
    assert (ours.as_numpy().min(), ours.as_numpy().max()) == (8, 8)


def test_nothing_is_kept_when_all_have_let_go():
    before = len(dlpack._exported)
    unused = Tensor("X", np.zeros(3)).to_dlpack()
    taken = np.from_dlpack(Tensor("X", np.zeros(3)))
    ours = Tensor.from_dlpack("Y", Tensor("X", np.zeros(3)))
    assert len(dlpack._exported) == before + 3
    del unused, taken, ours
    gc.collect()
    assert len(dlpack._exported) == before


def test_what_can_not_be_taken_is_refused_with_the_tensors_name():
    used = np.zeros(1).__dlpack__()
    Tensor.from_dlpack("X", used)
    for source, text in [
        (used, "not used yet"),
        (5, "got int"),
        (np.zeros(1, complex), "no Triton datatype"),
        (Capsule(np.zeros(1).__dlpack__(), (4, 0)), "device of DLPack type 4"),
    ]:
        with pytest.raises(TritonModelException, match="'X'") as caught:
            Tensor.from_dlpack("X", source)
        assert text in str(caught.value)
    with pytest.raises(TritonModelException, match="no strings"):
        Tensor("X", np.array([b"a"], object)).to_dlpack()


def test_in_a_model(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            theirs = np.from_dlpack(requests[0].inputs()[0]) + 1
            return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("Y", theirs)])]
    """
    for size in (3, 100_000):
        assert serve(code).call(X=np.zeros(size, np.float32))["Y"].tolist() == [1.0] * size


def test_a_capsule_holds_its_tensor():
    tensor = Tensor("X", np.zeros(3, np.float32))
    before = sys.getrefcount(tensor)
    capsule = tensor.to_dlpack()
    assert sys.getrefcount(tensor) == before + 1
    del capsule
    assert sys.getrefcount(tensor) == before
