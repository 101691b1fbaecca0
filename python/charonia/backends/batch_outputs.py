"""Outputs that are not cut by rows (`batch_output`): each request gets as many elements as the shape of one of its own
inputs says. For every backend that joins requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from charonia.config.schema import ModelConfig, ModelInput, ModelOutput
from charonia.core.datatypes import BYTES
from charonia.core.errors import BackendError
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, HostBuffer, Tensor, encode_bytes


@dataclass(frozen=True, slots=True)
class Scatter:
    """Gives each request its part of one output, in the order of the requests.

    Attributes:
        source: the input whose shape is followed.
        shape: of one request's part, batch dimension first where the model batches; -1 follows the same dimension of
            the input.
    """

    source: str
    shape: tuple[int, ...]

    def apply(
        self, model: str, name: str, datatype: str, array: Array, requests: Sequence[InferRequest]
    ) -> list[Tensor]:
        """
        Args:
            array: the output of the whole batch, C-contiguous, of any shape; the results are views of it.

        Raises:
            BackendError: it has not as many elements as the requests get together.
        """
        shapes = [self._shape_of(request) for request in requests]
        counts = [prod(shape) for shape in shapes]
        if sum(counts) != array.size:
            raise BackendError(
                f"model '{model}' gave output '{name}' with shape {list(array.shape)}, {array.size} elements, which "
                f"batch_output scatters by the shape of input '{self.source}': expected {sum(counts)} elements for "
                f"{_shown(shapes)}"
            )
        flat, at, tensors = array.reshape(-1), 0, []
        for shape, count in zip(shapes, counts, strict=True):
            tensors.append(_part(name, datatype, shape, flat[at : at + count]))
            at += count
        return tensors

    def _shape_of(self, request: InferRequest) -> tuple[int, ...]:
        given = request.inputs.get(self.source)
        if given is None:
            raise BackendError(
                f"a request for model '{request.model_name}' has no input '{self.source}', whose shape an output "
                "follows (batch_output)"
            )
        return tuple(given.shape[index] if dim < 0 else dim for index, dim in enumerate(self.shape))


def scatters(config: ModelConfig) -> Mapping[str, Scatter]:
    """By output, for a validated configuration; empty without `batch_output`."""
    shapes = {output.name: backend_shape(config, output) for output in config.output}
    return {
        target: Scatter(batch_output.source_input[0], shapes[target])
        for batch_output in config.batch_output
        for target in batch_output.target_name
    }


def backend_shape(config: ModelConfig, io: ModelInput | ModelOutput) -> tuple[int, ...]:
    """The shape of one request as the backend has it: reshaped, with the batch dimension."""
    dims = tuple(io.reshape.shape if io.HasField("reshape") else io.dims)
    return (-1, *dims) if config.max_batch_size > 0 else dims


def _part(name: str, datatype: str, shape: tuple[int, ...], part: Array) -> Tensor:
    if datatype == BYTES:
        data: Any = encode_bytes(part.tolist())
        return Tensor(name, datatype, shape, HostBuffer(data, len(data), owned=True))
    view: Any = part.view(np.uint8)
    return Tensor(name, datatype, shape, HostBuffer(memoryview(view), part.nbytes, owned=True))


def _shown(shapes: Sequence[tuple[int, ...]]) -> str:
    some = ", ".join(str(list(shape)) for shape in shapes[:4])
    return some if len(shapes) <= 4 else f"{some}, … ({len(shapes)} requests)"
