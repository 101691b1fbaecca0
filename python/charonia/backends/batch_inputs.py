"""Inputs that the server makes of a batch once it is formed (`batch_input`): how many elements each request brought, or
of which shape its rows are. For every backend that joins requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from charonia.config.schema import BatchInput, DataType, ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import InferRequest
from charonia.core.tensor import Array

Shapes = list[tuple[int, ...]]
"""The shapes of the source input in every request of a batch, batch dimension first."""


@dataclass(frozen=True, slots=True)
class BatchInputPlan:
    """How to make one input of the model.

    Attributes:
        name: of the model's input; source: of the requests' input that it tells about.
        dtype: int32 or float32.
        rank: how many dimensions the made input has.
    """

    name: str
    source: str
    dtype: DTypeLike
    rank: int
    kind: "BatchInput.Kind.ValueType"

    def make(self, requests: Sequence[InferRequest]) -> Array:
        """The input for the batch of `requests`.

        Raises:
            InvalidArgumentError: a request leaves the source out.
        """
        absent = next((request for request in requests if self.source not in request.inputs), None)
        if absent is not None:
            raise InvalidArgumentError(
                f"a request for model '{absent.model_name}' has no input '{self.source}', of which the model's input "
                f"'{self.name}' is made (batch_input): expected it in every request"
            )
        return _MAKERS[self.kind]([request.inputs[self.source].shape for request in requests], self.dtype)


def batch_input_plans(config: ModelConfig) -> list[BatchInputPlan]:
    """One for each target of every `batch_input` of a validated configuration."""
    return [
        BatchInputPlan(
            target,
            batch_input.source_input[0],
            np.float32 if batch_input.data_type == DataType.Value("TYPE_FP32") else np.int32,
            2 if batch_input.kind == BatchInput.BATCH_ITEM_SHAPE else 1,
            batch_input.kind,
        )
        for batch_input in config.batch_input
        for target in batch_input.target_name
    ]


def _element_count(shapes: Shapes, dtype: DTypeLike) -> Array:
    """[requests]: the elements of each request, those of all its rows together."""
    return np.array([prod(shape) for shape in shapes], dtype)


def _accumulated(shapes: Shapes, dtype: DTypeLike) -> Array:
    """[requests]: where each request's elements end among those of all."""
    return np.array([*accumulate(prod(shape) for shape in shapes)], dtype)


def _accumulated_with_zero(shapes: Shapes, dtype: DTypeLike) -> Array:
    """[requests + 1]: where each request's elements begin, and where the last one's end."""
    return np.array([0, *accumulate(prod(shape) for shape in shapes)], dtype)


def _max_count_as_shape(shapes: Shapes, dtype: DTypeLike) -> Array:
    """[elements of the largest request]: only the shape tells something, the values are zeros."""
    return np.zeros(max(prod(shape) for shape in shapes), dtype)


def _item_shape(shapes: Shapes, dtype: DTypeLike) -> Array:
    """[rows, dims of a row]: the shape of every row, without the batch dimension."""
    rows = [np.tile(np.array(shape[1:], dtype), (shape[0], 1)) for shape in shapes]
    return np.concatenate(rows)


def _item_shape_flat(shapes: Shapes, dtype: DTypeLike) -> Array:
    """[rows * dims of a row]"""
    return _item_shape(shapes, dtype).ravel()


_MAKERS: dict[int, Callable[[Shapes, DTypeLike], Array]] = {
    BatchInput.BATCH_ELEMENT_COUNT: _element_count,
    BatchInput.BATCH_ACCUMULATED_ELEMENT_COUNT: _accumulated,
    BatchInput.BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO: _accumulated_with_zero,
    BatchInput.BATCH_MAX_ELEMENT_COUNT_AS_SHAPE: _max_count_as_shape,
    BatchInput.BATCH_ITEM_SHAPE: _item_shape,
    BatchInput.BATCH_ITEM_SHAPE_FLATTEN: _item_shape_flat,
}
