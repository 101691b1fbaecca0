"""Outputs that are scattered by the shapes of inputs."""

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import text_format

from charonia.backends.batch_outputs import scatters
from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError
from charonia.core.tensor import Array, Tensor
from tests.unit.backends.test_batch_inputs import request


def scattered(
    dims: str, array: Array, *shapes: tuple[int, ...], datatype: str = "FP32", batch: int = 8
) -> list[Tensor]:
    text = f"""max_batch_size: {batch} output {{ name: "Y" dims: {dims} }}
        batch_output {{ target_name: "Y" source_input: "X" }}"""
    (scatter,) = scatters(text_format.Parse(text, ModelConfig())).values()
    return scatter.apply("m", "Y", datatype, array, [request(*shape) for shape in shapes])


def test_each_gets_as_many_elements_as_its_input_has() -> None:
    parts = scattered("-1", np.arange(7, dtype=np.float32), (1, 3), (2, 2), (1, 0))
    assert [part.numpy().tolist() for part in parts] == [[[0, 1, 2]], [[3, 4], [5, 6]], [[]]]
    assert [(part.name, part.datatype) for part in parts] == [("Y", "FP32")] * 3


def test_fixed_dims_are_the_outputs_own() -> None:
    parts = scattered("[ -1, 2 ]", np.arange(10, dtype=np.float32).reshape(5, 2), (1, 3, 7), (1, 2, 9))
    assert [part.shape for part in parts] == [(1, 3, 2), (1, 2, 2)]
    assert parts[1].numpy().tolist() == [[[6, 7], [8, 9]]]


def test_a_reshape_is_followed_where_there_is_one() -> None:
    parts = scattered("2 reshape { shape: [ 1, 2 ] }", np.arange(4, dtype=np.float32), (1, 9), (1, 3))
    assert [part.shape for part in parts] == [(1, 1, 2), (1, 1, 2)]


def test_without_a_batch_dimension() -> None:
    (part,) = scattered("[ -1 ]", np.arange(3, dtype=np.float32), (3,), batch=0)
    assert part.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("datatype", "array"),
    [
        ("BYTES", np.array([b"a", b"", b"ccc"], np.object_)),
        ("BF16", np.array([1, 2, 3], ml_dtypes.bfloat16)),
        ("BOOL", np.array([True, False, True])),
        ("INT64", np.array([1, 2, 2**60])),
    ],
)
def test_every_kind_of_datatype(datatype: str, array: Array) -> None:
    parts = scattered("-1", array, (1, 1), (1, 2), datatype=datatype)
    assert np.concatenate([part.numpy().ravel() for part in parts]).tolist() == array.tolist()


def test_nothing_is_copied() -> None:
    array = np.arange(4, dtype=np.float32)
    first, _ = scattered("-1", array, (1, 2), (1, 2))
    assert np.shares_memory(first.numpy(), array)


def test_too_few_and_too_many_elements() -> None:
    for size in (4, 6):
        with pytest.raises(BackendError, match=rf"'m' gave output 'Y' with shape \[{size}\].*'X'.*expected 5 elements"):
            scattered("-1", np.zeros(size, np.float32), (1, 3), (1, 2))


def test_a_request_without_the_input() -> None:
    text = 'output { name: "Y" dims: -1 } batch_output { target_name: "Y" source_input: "X" }'
    (scatter,) = scatters(text_format.Parse(text, ModelConfig())).values()
    with pytest.raises(BackendError, match="no input 'X', whose shape an output follows"):
        scatter.apply("m", "Y", "FP32", np.zeros(1, np.float32), [request(1, 1, name="OTHER")])
