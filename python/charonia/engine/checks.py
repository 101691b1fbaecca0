"""Whether a request fits its model, by the model's configuration. What needs no configuration the wire has checked.

What passed once is remembered under the request's signature, so that the usual request costs two dictionary look-ups.
"""

import threading
from collections.abc import Hashable, Sequence

from charonia.config.io import InputSpec, OutputSpec
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import InferRequest
from charonia.core.reshape import Reshape
from charonia.core.tensor import Tensor
from charonia.core.text import shown
from charonia.scheduling.queue import request_prefix

# Enough for every shape bucket of a tokenised text model; a client that makes up shapes only costs a re-check.
_REMEMBERED_SIGNATURES = 4096


class RequestCheck:
    """The checks of one model version; also sets batch size and shape key, and applies input reshapes."""

    def __init__(
        self, model_name: str, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], max_batch_size: int
    ) -> None:
        self._model_name = model_name
        self._inputs = {spec.name: spec for spec in inputs}
        self._required = [spec.name for spec in inputs if not spec.optional]
        self._outputs = frozenset(spec.name for spec in outputs)
        self._max_batch_size = max_batch_size
        self._reshapes = {
            spec.name: Reshape(spec.dims, spec.reshape, max_batch_size > 0)
            for spec in inputs
            if spec.reshape is not None
        }
        # With a shape tensor the first dims differ by rule, so every request takes the long way.
        self._memorable = not self._reshapes and not any(spec.is_shape_tensor for spec in inputs)
        self._known: dict[tuple[Hashable, int], int] = {}
        self._lock = threading.Lock()
        self._shape_keys: dict[object, int] = {}
        self._next_shape_key = 0

    def check(self, request: InferRequest) -> None:
        """Complete the request's `batch_size`, `shape_key` and reshaped inputs.

        Raises:
            InvalidArgumentError: naming the model, the tensor, what was expected and what came.
        """
        batch_dim = request.batch_dim
        batches = self._max_batch_size > 0
        memory_key = (request.signature, 0 if batches else batch_dim)
        shape_key = self._known.get(memory_key)
        if shape_key is not None and (not batches or 1 <= batch_dim <= self._max_batch_size):
            request.shape_key = shape_key
            request.batch_size = batch_dim if batches else 1
            return
        self._check_fully(request)
        if self._memorable and request.signature and batch_dim >= 0:
            if len(self._known) >= _REMEMBERED_SIGNATURES:
                self._known.clear()
            assert isinstance(request.shape_key, int)
            self._known[memory_key] = request.shape_key

    def _check_fully(self, request: InferRequest) -> None:
        self._check_names(request)
        # Shapes before the batch size: a missing batch dimension would be told as a batch that is too large.
        for tensor in request.inputs.values():
            self._check_tensor(request, tensor, self._inputs[tensor.name])
        request.batch_size = self._batch_size(request) if self._max_batch_size > 0 else 1
        request.shape_key = self._shape_key(request)
        for name, reshape in self._reshapes.items():
            if name in request.inputs:
                given = request.inputs[name]
                request.inputs[name] = Tensor(name, given.datatype, reshape.apply(given.shape), given.buffer)

    def _check_names(self, request: InferRequest) -> None:
        for name in request.inputs:
            if name not in self._inputs:
                raise InvalidArgumentError(
                    f"unexpected inference input '{shown(name)}' for model '{self._model_name}', "
                    f"which has {_listed('input', self._inputs)}"
                )
        for name in request.requested_outputs:
            if name not in self._outputs and self._outputs:
                raise InvalidArgumentError(
                    f"unexpected inference output '{shown(name)}' for model '{self._model_name}', "
                    f"which has {_listed('output', self._outputs)}"
                )
        if len(set(request.requested_outputs)) != len(request.requested_outputs):
            twice = next(name for name in request.requested_outputs if request.requested_outputs.count(name) > 1)
            raise self._wrong(request, f"output '{twice}' already exists in request for model '{self._model_name}'")
        missing = [name for name in self._required if name not in request.inputs]
        if missing:
            raise self._missing(request, missing)

    def _missing(self, request: InferRequest, missing: Sequence[str]) -> InvalidArgumentError:
        least, most, got = len(self._required), len(self._inputs), len(request.inputs)
        expected = (
            f"expected {most} inputs" if least == most else f"expected number of inputs between {least} and {most}"
        )
        return self._wrong(
            request,
            f"{expected} but got {got} inputs for model '{self._model_name}'. Got input(s) {_quoted(request.inputs)}, "
            f"but missing required input(s) {_quoted(missing)}. Please provide all required input(s).",
        )

    def _batch_size(self, request: InferRequest) -> int:
        size = -1
        for name, tensor in request.inputs.items():
            if self._inputs[name].is_shape_tensor:
                continue
            if not tensor.shape:
                raise self._wrong_shape(request, tensor, self._inputs[name])
            if size not in (-1, tensor.shape[0]):
                raise self._wrong(
                    request,
                    f"input '{name}' batch size does not match other inputs for '{self._model_name}': "
                    f"{tensor.shape[0]} here, {size} there",
                )
            size = tensor.shape[0]
        if size == -1:
            return 1
        if size > self._max_batch_size:
            raise self._wrong(
                request,
                f"inference request batch-size must be <= {self._max_batch_size} for '{self._model_name}', got {size}",
            )
        if size < 1:
            raise self._wrong(
                request, f"inference request batch-size must be at least 1 for '{self._model_name}', got {size}"
            )
        return size

    def _check_tensor(self, request: InferRequest, tensor: Tensor, spec: InputSpec) -> None:
        if spec.datatype and tensor.datatype != spec.datatype:
            raise self._wrong(
                request,
                f"inference input '{tensor.name}' data-type is '{tensor.datatype}', "
                f"but model '{self._model_name}' expects '{spec.datatype}'",
            )
        skip = 1 if self._max_batch_size > 0 and not spec.is_shape_tensor else 0
        dims = tensor.shape[skip:]
        fits = len(dims) == len(spec.dims) and all(
            dim == wanted or (wanted == -1 and dim >= 0) for dim, wanted in zip(dims, spec.dims, strict=False)
        )
        if not fits:
            raise self._wrong_shape(request, tensor, spec)

    def _wrong_shape(self, request: InferRequest, tensor: Tensor, spec: InputSpec) -> InvalidArgumentError:
        batched = self._max_batch_size > 0 and not spec.is_shape_tensor
        expected = [-1, *spec.dims] if batched else list(spec.dims)
        note = ""
        if batched and len(tensor.shape) == len(spec.dims):
            note = (
                f" NOTE: this model batches (max_batch_size {self._max_batch_size}), so each input shape starts with "
                "the batch dimension; for one item put 1 in front."
            )
        return self._wrong(
            request,
            f"unexpected shape for input '{tensor.name}' for model '{self._model_name}'. "
            f"Expected {_dims(expected)}, got {_dims(tensor.shape)}.{note}",
        )

    def _shape_key(self, request: InferRequest) -> int:
        """Equal for requests whose tensors can be joined along the batch dimension: one small number for each form."""
        skip = 1 if self._max_batch_size > 0 else 0
        form = tuple(
            sorted(
                (name, tensor.datatype, () if self._inputs[name].ragged else tensor.shape[skip:])
                for name, tensor in request.inputs.items()
            )
        )
        # Several threads submit; were two forms to get one number, their tensors would be joined.
        with self._lock:
            key = self._shape_keys.get(form)
            if key is None:
                if len(self._shape_keys) >= _REMEMBERED_SIGNATURES:
                    self._shape_keys.clear()
                self._next_shape_key += 1
                key = self._shape_keys[form] = self._next_shape_key
        return key

    def _wrong(self, request: InferRequest, sentence: str) -> InvalidArgumentError:
        return InvalidArgumentError(request_prefix(request) + sentence)


def _listed(what: str, names: Sequence[str] | dict[str, InputSpec] | frozenset[str]) -> str:
    return f"{what}s {_quoted(sorted(names))}" if names else f"no {what}s"


def _quoted(names: Sequence[str] | dict[str, Tensor]) -> str:
    return "[" + ",".join(f"'{shown(name)}'" for name in names) + "]"


def _dims(dims: Sequence[int]) -> str:
    return "[" + ",".join(map(str, dims)) + "]"
