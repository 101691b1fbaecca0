"""What the server makes of a batch: each kind, for requests of one and of several rows."""

import numpy as np
import pytest
from google.protobuf import text_format

from charonia.backends.batch_inputs import batch_input_plans
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, Tensor


class Nowhere:
    def send(self, replies: object) -> None:
        """Nothing is answered here."""


def request(*shape: int, name: str = "X") -> InferRequest:
    tensor = Tensor.from_numpy(name, np.zeros(shape, np.float32))
    return InferRequest("m", -1, {name: tensor}, Nowhere(), 0)


def made(kind: str, *shapes: tuple[int, ...], data_type: str = "TYPE_INT32") -> Array:
    text = f'batch_input {{ kind: {kind} target_name: "T" data_type: {data_type} source_input: "X" }}'
    (plan,) = batch_input_plans(text_format.Parse(text, ModelConfig()))
    array = plan.make([request(*shape) for shape in shapes])
    assert plan.rank == array.ndim
    return array


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BATCH_ELEMENT_COUNT", [3, 8, 0, 1]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", [3, 11, 11, 12]),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 3, 11, 11, 12]),
        ("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [0] * 8),
        ("BATCH_ITEM_SHAPE", [[3], [4], [4], [0], [1]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [3, 4, 4, 0, 1]),
    ],
)
@pytest.mark.parametrize(("data_type", "dtype"), [("TYPE_INT32", np.int32), ("TYPE_FP32", np.float32)])
def test_each_kind(kind: str, expected: object, data_type: str, dtype: type) -> None:
    array = made(kind, (1, 3), (2, 4), (1, 0), (1, 1), data_type=data_type)
    assert array.dtype == dtype
    assert array.tolist() == expected
    assert array.flags.c_contiguous


def test_shapes_of_rows_with_several_dimensions() -> None:
    assert made("BATCH_ITEM_SHAPE", (2, 3, 1), (1, 2, 2)).tolist() == [[3, 1], [3, 1], [2, 2]]
    assert made("BATCH_ITEM_SHAPE_FLATTEN", (2, 3, 1), (1, 2, 2)).tolist() == [3, 1, 3, 1, 2, 2]
    assert made("BATCH_ELEMENT_COUNT", (2, 3, 1), (1, 2, 2)).tolist() == [6, 4]


def test_rows_without_dims() -> None:
    assert made("BATCH_ITEM_SHAPE", (2,), (1,)).shape == (3, 0)
    assert made("BATCH_ELEMENT_COUNT", (2,), (1,)).tolist() == [2, 1]


def test_one_of_several_targets_is_like_the_other() -> None:
    text = 'batch_input { target_name: [ "S", "T" ] data_type: TYPE_FP32 source_input: "X" }'
    plans = batch_input_plans(text_format.Parse(text, ModelConfig()))
    assert [plan.name for plan in plans] == ["S", "T"]
    assert [plan.make([request(1, 5)]).tolist() for plan in plans] == [[5], [5]]


def test_a_request_without_the_source() -> None:
    text = 'batch_input { target_name: "T" data_type: TYPE_FP32 source_input: "X" }'
    (plan,) = batch_input_plans(text_format.Parse(text, ModelConfig()))
    with pytest.raises(InvalidArgumentError, match=r"model 'm' has no input 'X', of which .* 'T' is made"):
        plan.make([request(1, 5), request(1, 5, name="OTHER")])
