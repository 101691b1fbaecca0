"""Ragged batches: requests of unequal shapes in one run, inputs that tell the model which elements are whose, and
outputs that are given back by the shapes of inputs.

The model takes each ragged input with rank 1: the elements of all requests, one after the other. Tensors cross by the
host's memory, also where the session runs on a GPU.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from charonia.backends.base import Batch
from charonia.backends.batch_inputs import batch_input_plans
from charonia.backends.batch_outputs import scatters
from charonia.backends.joining import check_rows, split, whole
from charonia.backends.onnxruntime.instance import InputPlan, OnnxRuntimeInstance, OutputPlan
from charonia.config.schema import ModelConfig
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, Tensor


def is_ragged(config: ModelConfig) -> bool:
    """Whether a model needs a `RaggedInstance`."""
    return bool(config.batch_input or config.batch_output) or any(io.allow_ragged_batch for io in config.input)


class RaggedInstance(OnnxRuntimeInstance):
    """See `OnnxRuntimeInstance`; for models that are `is_ragged`."""

    def __init__(self, *args: Any, config: ModelConfig, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._made = batch_input_plans(config)
        self._scatters = scatters(config)
        self._ragged = frozenset(io.name for io in config.input if io.allow_ragged_batch)
        made = {plan.name for plan in self._made}
        self._inputs = [plan for plan in self._inputs if plan.name not in made]

    def _feed(self, requests: Sequence[InferRequest]) -> dict[str, Array]:
        feed = super()._feed(requests)
        for plan in self._made:
            feed[plan.name] = plan.make(requests)
        return feed

    def _array(self, plan: InputPlan, requests: Sequence[InferRequest], rows: int) -> Array:
        if plan.name not in self._ragged:
            return super()._array(plan, requests, rows)
        if len(requests) > 1:
            return plan.to_array(self._staging.join_ragged(requests, plan.name))
        given = requests[0].inputs[plan.name]
        return plan.to_array(Tensor(given.name, given.datatype, (prod(given.shape),), given.buffer))

    def _whole(self, plan: OutputPlan, results: Sequence[Array], request: InferRequest) -> list[Tensor]:
        """As the base's, but for the outputs that are scattered: those keep no rows."""
        return [column[0] for column in self._columns(plan, results, [request])]

    def _respond_each(
        self, batch: Batch, requests: Sequence[InferRequest], plan: OutputPlan, results: Sequence[Array]
    ) -> None:
        columns = self._columns(plan, results, requests)
        for request, outputs in zip(requests, zip(*columns, strict=True), strict=True):
            batch.respond(request, outputs)

    def _columns(
        self, plan: OutputPlan, results: Sequence[Array], requests: Sequence[InferRequest]
    ) -> list[list[Tensor]]:
        """Each output, in the parts of the requests."""
        results = self._unscalar(plan, results)
        outputs = zip(plan.names, plan.datatypes, results, strict=True)
        return [self._column(name, datatype, array, requests) for name, datatype, array in outputs]

    def _column(self, name: str, datatype: str, array: Array, requests: Sequence[InferRequest]) -> list[Tensor]:
        scatter = self._scatters.get(name)
        if scatter is not None:
            return scatter.apply(self._model, name, datatype, array, requests)
        rows = [request.batch_size for request in requests]
        if self._batched:
            check_rows(self._model, (name,), (array,), sum(rows))
        return [whole(name, datatype, array)] if len(rows) == 1 else split(name, datatype, array, rows, sum(rows))
