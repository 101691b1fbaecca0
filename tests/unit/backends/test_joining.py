"""Joining inputs and splitting outputs, by hand-made examples and by property."""

from math import prod

import ml_dtypes
import numpy as np
import onnx_models
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia.backends.joining import Staging, check_rows, split, whole
from charonia.core.errors import BackendError
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Array, Tensor


class _NoChannel:
    def send(self, replies: "list[Reply] | tuple[Reply, ...]") -> None:
        raise AssertionError("nothing is answered here")


def _requests(arrays: list[Array]) -> list[InferRequest]:
    return [InferRequest("m", -1, {"X": Tensor.from_numpy("X", array)}, _NoChannel(), 0) for array in arrays]


@settings(max_examples=60, deadline=None)
@given(
    datatype=st.sampled_from(sorted(onnx_models.ONNX_TYPES)),
    rows=st.lists(st.integers(1, 3), min_size=2, max_size=6),
    rest=st.lists(st.integers(0, 3), max_size=2),
)
def test_what_is_joined_and_split_is_what_it_was(datatype: str, rows: list[int], rest: list[int]) -> None:
    arrays = [onnx_models.sample(datatype, (count, *rest), seed) for seed, count in enumerate(rows)]
    joined = Staging().join(_requests(arrays), "X", sum(rows))
    assert joined.shape == (sum(rows), *rest)
    parts = split("Y", datatype, joined.numpy(), rows, sum(rows))
    for array, part in zip(arrays, parts, strict=True):
        assert (part.name, part.datatype, part.shape) == ("Y", datatype, array.shape)
        assert part.numpy().tolist() == array.tolist()
        if datatype != "BYTES":
            assert part.buffer.nbytes == array.itemsize * prod(array.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.bool_, ml_dtypes.bfloat16])
def test_large_inputs_are_joined_in_memory_that_is_used_again(dtype: type) -> None:
    staging = Staging()
    arrays = [np.full((2, 200_000), seed, dtype) for seed in (0, 1)]
    first = staging.join(_requests(arrays), "X", 4).buffer.host()
    second = staging.join(_requests(arrays[::-1]), "X", 4)
    assert np.shares_memory(first, second.buffer.host())
    assert (second.numpy() == np.concatenate(arrays[::-1])).all()
    assert not np.shares_memory(second.buffer.host(), staging.join(_requests(arrays * 2), "X", 8).buffer.host())


def test_small_outputs_are_views() -> None:
    array = np.arange(8, dtype=np.int16).reshape(4, 2)
    parts = split("Y", "INT16", array, [1, 3], 4)
    array[3, 1] = 99
    assert parts[1].numpy()[2, 1] == 99


@pytest.mark.parametrize("shape", [(), (3,), (5, 4)])
def test_outputs_without_the_rows_of_the_batch(shape: tuple[int, ...]) -> None:
    with pytest.raises(BackendError, match=r"model 'm' gave output 'Y' with shape .* batch of 4 rows"):
        check_rows("m", ["Y"], [np.zeros(shape, np.float32)], 4)


def test_a_whole_output_lends_its_memory() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = whole("Y", "FP32", array)
    assert tensor.buffer.owned
    assert np.shares_memory(tensor.numpy(), array)
    memoryview(whole("Y", "BF16", array.astype(ml_dtypes.bfloat16)).buffer.host())
