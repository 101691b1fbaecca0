"""The smallest backend, and the example of how to add one.

A model with `backend: "identity"` answers OUTPUT0 with INPUT0, OUTPUT1 with INPUT1 and so on, in the order of the
configuration; for an optional input that is absent with zeros, where its dims say how many. Its parameter
`execute_delay_ms` makes each batch take that long, and `creation_delay_sec` each load, which tests of scheduling and of
loading like; `enable_custom_tracing` adds to traces what a backend may.

To add a backend: write these three classes, then name the first as an entry point of the group `charonia.backends`

    [project.entry-points."charonia.backends"]
    mine = "my_package.backend:MyBackend"

so that models with `backend: "mine"` find it. It is called without arguments, once for each server.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from charonia.backends.base import Batch, InstanceSpec, ModelContext
from charonia.backends.inspecting import Inspection
from charonia.config.findings import Finding, Severity
from charonia.config.io import io_specs
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.core.given_data import zero_data
from charonia.core.request import InferRequest
from charonia.core.tensor import HostBuffer, Tensor

_UNITS = {
    "execute_delay_ms": "milliseconds",
    "creation_delay_sec": "seconds",
    "nested_span_count": "spans",
    "single_activity_frequency": "spans",
}
"""Parameters that are whole numbers."""


class IdentityBackend:
    """One for each server: knows how to load models. It keeps nothing."""

    name = "identity"

    def complete_config(self, context: ModelContext) -> ModelConfig:
        """There is no model file that could tell more than the configuration does."""
        return context.config

    def inspect(self, context: ModelContext) -> Inspection:
        """For `charonia check`, which a backend need not serve: what `load` would refuse, with its place."""
        return Inspection(context.config, tuple(_refusals(context)))

    def load(self, context: ModelContext) -> "IdentityModel":
        """Check the configuration: what fails here fails the load, with a reason that the user can act on.

        Raises:
            InvalidArgumentError: inputs and outputs don't pair up, or a delay is no number.
        """
        pairs, delay_s = _pairs(context), _parameter(context, "execute_delay_ms") / 1000
        time.sleep(_parameter(context, "creation_delay_sec"))
        return IdentityModel(pairs, _rows_of_zeros(context), delay_s, _activities(context))

    def close(self) -> None:
        """Nothing is shared between models."""


class IdentityModel:
    """One for each loaded model version: holds what its instances share."""

    def __init__(
        self, pairs: list[tuple[str, str]], rows: dict[str, Tensor], delay_s: float, activities: Sequence[str]
    ) -> None:
        self._pairs = pairs
        self._rows = rows
        self._delay_s = delay_s
        self._activities = activities
        self._closing = threading.Event()

    def create_instance(self, spec: InstanceSpec) -> "IdentityInstance":
        return IdentityInstance(self._pairs, self._rows, self._delay_s, self._activities, self._closing)

    def close(self) -> None:
        self._closing.set()


class IdentityInstance:
    """One for each instance: executes batches, one at a time, on the thread that is its own."""

    healthy = True
    any_thread = True

    def __init__(
        self,
        pairs: list[tuple[str, str]],
        rows: dict[str, Tensor],
        delay_s: float,
        activities: Sequence[str],
        closing: threading.Event,
    ) -> None:
        self._activities = activities
        self._pairs = pairs
        self._rows = rows
        self._delay_s = delay_s
        self._closing = closing

    def start(self, batch: Batch) -> None:
        """Answer every request. A backend that answers later calls `batch.hold()` here and returns."""
        batch.inputs_ready()
        if self._delay_s:
            self._closing.wait(self._delay_s)
        batch.outputs_ready()
        for request in batch.requests:
            if self._activities and request.trace is not None:
                for activity in self._activities:
                    request.trace.activity(activity, time.monotonic_ns())
            batch.respond(request, [*self._outputs(request)])

    def close(self) -> None:
        """Nothing to free."""

    def _outputs(self, request: InferRequest) -> list[Tensor]:
        """The inputs under their output names, with the same buffers: nothing is copied."""
        inputs = request.inputs if not self._rows else self._completed(request)
        tensors = [(output, inputs[name]) for name, output in self._pairs if name in inputs]
        return [Tensor(output, tensor.datatype, tensor.shape, tensor.buffer) for output, tensor in tensors]

    def _completed(self, request: InferRequest) -> dict[str, Tensor]:
        absent = {name: row for name, row in self._rows.items() if name not in request.inputs}
        if request.batch_size > 1:
            absent = {name: _repeated(row, request.batch_size) for name, row in absent.items()}
        return {**request.inputs, **absent}


def _repeated(row: Tensor, count: int) -> Tensor:
    """The same row `count` times, for a model that batches."""
    data = row.buffer.host() * count
    return Tensor(row.name, row.datatype, (count, *row.shape[1:]), HostBuffer(data, len(data), owned=True))


def _pairs(context: ModelContext) -> list[tuple[str, str]]:
    inputs, outputs = context.config.input, context.config.output
    if len(outputs) > len(inputs):
        raise InvalidArgumentError(
            f"model '{context.name}' has {len(outputs)} outputs for {len(inputs)} inputs: "
            f"backend identity answers output n with input n, so '{outputs[len(inputs)].name}' has none"
        )
    for source, target in zip(inputs, outputs, strict=False):
        if source.data_type != target.data_type:
            raise InvalidArgumentError(
                f"model '{context.name}': backend identity answers output '{target.name}' with input '{source.name}', "
                "so both must have the same data_type"
            )
    return [(source.name, target.name) for source, target in zip(inputs, outputs, strict=False)]


def _refusals(context: ModelContext) -> Iterator[Finding]:
    checks: dict[str, Callable[[], object]] = {
        "output": lambda: _pairs(context),
        **{f'parameters["{name}"].string_value': partial(_parameter, context, name) for name in _UNITS},
    }
    for path, check in checks.items():
        try:
            check()
        except InvalidArgumentError as error:
            yield Finding(Severity.ERROR, path, context.places.find(path), str(error))


def _rows_of_zeros(context: ModelContext) -> dict[str, Tensor]:
    """For optional inputs of fixed dims: one row of zeros, or of empty strings."""
    rows = {}
    for spec in io_specs(context.config)[0]:
        dims = spec.dims if spec.reshape is None else spec.reshape
        if spec.optional and all(dim >= 0 for dim in dims):
            data = zero_data(f"model '{context.name}', input '{spec.name}'", spec.datatype, dims)
            shape = (1, *dims) if context.config.max_batch_size else dims
            rows[spec.name] = Tensor(spec.name, spec.datatype, shape, HostBuffer(data, len(data), owned=True))
    return rows


def _activities(context: ModelContext) -> Sequence[str]:
    """What each execution notes in a trace, as an example of what a backend may: spans, spans in them, and moments."""
    parameters = context.config.parameters
    if "enable_custom_tracing" not in parameters or parameters["enable_custom_tracing"].string_value != "true":
        return ()
    count = _parameter(context, "nested_span_count")
    each = _parameter(context, "single_activity_frequency", 1) or 1
    names = ["CUSTOM_ACTIVITY_START", "CUSTOM_ACTIVITY_END", "CUSTOM_SINGLE_ACTIVITY"]
    for number in range(count):
        names.append(f"CUSTOM_ACTIVITY{number}_START")
        names += [] if number % each else ["CUSTOM_SINGLE_ACTIVITY"]
    return (*names, *(f"CUSTOM_ACTIVITY{number}_END" for number in reversed(range(count))))


def _parameter(context: ModelContext, name: str, default: int = 0) -> int:
    if name not in context.config.parameters:
        return default
    text = context.config.parameters[name].string_value
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"model '{context.name}': parameter '{name}' must be a whole number of {_UNITS[name]}, got '{text}'"
        )
    return int(text)
