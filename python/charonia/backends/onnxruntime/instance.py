"""One session of a model, executing batches. This is the hot path: what can be known beforehand is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from charonia.backends.base import Batch
from charonia.backends.joining import Staging, check_rows, split, whole
from charonia.backends.onnxruntime.load_errors import clean
from charonia.backends.onnxruntime.runtime import Module
from charonia.backends.onnxruntime.values import array_of, not_text, ort_value
from charonia.core.errors import BackendError, CharoniaError
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, Tensor

Outputs = list[tuple[str, str]]
"""Names and datatypes of outputs, in the model's order."""
# Distinct sets of requested outputs that are remembered; a client can't ask for more than this without losing a little.
_PLANS = 64


@dataclass(frozen=True, slots=True)
class InputPlan:
    """How to make one input of the model.

    Attributes:
        optional: the model has a default for it.
        scalar: the model takes rank 0 where the configuration says dims [1].
    """

    name: str
    to_array: Callable[[Tensor], Array]
    optional: bool
    scalar: bool


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """Attributes:
    names, datatypes: of the outputs to compute, in the model's order.
    scalars: those that the model gives with rank 0 where the configuration says dims [1].
    """

    names: list[str]
    datatypes: list[str]
    scalars: frozenset[str]


class OnnxRuntimeInstance:
    """Executes on the thread that calls `start`; answers before it returns.

    Args:
        model: the name, for messages.
        batched: whether the model has a batch dimension (`max_batch_size` > 0).
        states: outputs that are states of a sequence: they are computed whatever was requested.
        by_value: the model has bfloat16 inputs or outputs, which must travel as OrtValues.
        run_options: an `onnxruntime.RunOptions`, or None.
    """

    healthy = True
    any_thread = True

    def __init__(
        self,
        runtime: Module,
        session: Any,
        model: str,
        inputs: Sequence[InputPlan],
        outputs: OutputPlan,
        *,
        states: frozenset[str],
        batched: bool,
        by_value: bool,
        run_options: Any | None,
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._model = model
        self._inputs = inputs
        self._outputs = outputs
        self._states = states
        self._batched = batched
        self._run = self._run_values if by_value else self._run_arrays
        self._run_options = run_options
        self._staging = Staging()
        self._plans: dict[tuple[str, ...], OutputPlan] = {(): outputs}

    def start(self, batch: Batch) -> None:
        try:
            self._execute(batch, batch.requests)
        except CharoniaError:
            if len(batch.requests) == 1:
                raise
            self._start_one_by_one(batch)

    def _start_one_by_one(self, batch: Batch) -> None:
        """Something in the batch can't be handed to the model, or makes it fail: find it, and serve the others.

        Nothing of the batch was answered yet, and a graph without state may be run again.
        """
        for request in batch.requests:
            try:
                self._execute(batch, [request])
            except CharoniaError as error:
                batch.fail(request, error)

    def _execute(self, batch: Batch, requests: Sequence[InferRequest]) -> None:
        feed = self._feed(requests)
        plan = self._plan(requests)
        batch.inputs_ready()
        results = self._run(plan, feed)
        batch.outputs_ready()
        if len(requests) == 1:
            batch.respond(requests[0], self._whole(plan, results, requests[0]))
        else:
            self._respond_each(batch, requests, plan, results)

    def close(self) -> None:
        self._session = None

    def _feed(self, requests: Sequence[InferRequest]) -> dict[str, Array]:
        rows = sum([request.batch_size for request in requests]) if len(requests) > 1 else 0
        given = requests[0].inputs
        feed = {}
        for plan in self._inputs:
            name = plan.name
            if name not in given:
                if plan.optional:
                    continue
                raise BackendError(f"model '{self._model}': a request without input '{name}' reached the model")
            array = self._array(plan, requests, rows)
            feed[name] = array.reshape(()) if plan.scalar and array.size == 1 else array
        return feed

    def _array(self, plan: InputPlan, requests: Sequence[InferRequest], rows: int) -> Array:
        """One input of all requests; `rows` of them where there are several requests."""
        one = requests[0].inputs[plan.name] if not rows else self._staging.join(requests, plan.name, rows)
        return plan.to_array(one)

    def _plan(self, requests: Sequence[InferRequest]) -> OutputPlan:
        """What to compute: only what was requested, when all requests of the batch agree; else everything."""
        wanted = requests[0].requested_outputs
        if wanted and not [request for request in requests if request.requested_outputs != wanted]:
            return self._plans.get(wanted) or self._make_plan(wanted)
        return self._outputs

    def _make_plan(self, wanted: tuple[str, ...]) -> OutputPlan:
        every = self._outputs
        pairs = zip(every.names, every.datatypes, strict=True)
        chosen = [(name, datatype) for name, datatype in pairs if name in wanted or name in self._states]
        plan = OutputPlan([n for n, _ in chosen], [d for _, d in chosen], every.scalars) if chosen else every
        if len(self._plans) < _PLANS:
            self._plans[wanted] = plan
        return plan

    def _run_arrays(self, plan: OutputPlan, feed: dict[str, Array]) -> Sequence[Array]:
        try:
            results: Sequence[Array] = self._session.run(plan.names, feed, self._run_options)
        except UnicodeDecodeError as error:
            raise not_text(", ".join(plan.names)) from error
        except Exception as error:
            raise self._failed(error) from error
        return results

    def _run_values(self, plan: OutputPlan, feed: dict[str, Array]) -> Sequence[Array]:
        try:
            values = {name: ort_value(self._runtime, array) for name, array in feed.items()}
            results = self._session.run_with_ort_values(plan.names, values, self._run_options)
        except Exception as error:
            raise self._failed(error) from error
        return [array_of(value, *output) for value, *output in zip(results, plan.names, plan.datatypes, strict=True)]

    def _failed(self, error: Exception) -> BackendError:
        return BackendError(f"model '{self._model}' failed in ONNX Runtime: {clean(error)}")

    def _whole(self, plan: OutputPlan, results: Sequence[Array], request: InferRequest) -> list[Tensor]:
        if self._batched:
            check_rows(self._model, plan.names, results, request.batch_size)
        if plan.scalars:
            results = self._unscalar(plan, results)
        return [whole(*output) for output in zip(plan.names, plan.datatypes, results, strict=True)]

    def _respond_each(
        self, batch: Batch, requests: Sequence[InferRequest], plan: OutputPlan, results: Sequence[Array]
    ) -> None:
        rows = [request.batch_size for request in requests]
        total = sum(rows)
        check_rows(self._model, plan.names, results, total)
        columns = [split(*output, rows, total) for output in zip(plan.names, plan.datatypes, results, strict=True)]
        respond = batch.respond
        for request, outputs in zip(requests, zip(*columns, strict=True), strict=True):
            respond(request, outputs)

    @staticmethod
    def _unscalar(plan: OutputPlan, results: Sequence[Array]) -> list[Array]:
        return [
            array.reshape(1) if name in plan.scalars and not array.shape else array
            for name, array in zip(plan.names, results, strict=True)
        ]
