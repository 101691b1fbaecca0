"""The smallest backend, and the example of how to add one.

A model with `backend: "identity"` answers OUTPUT0 with INPUT0, OUTPUT1 with INPUT1 and so on, in the order of the
configuration. Its parameter `execute_delay_ms` makes each batch take that long, and `creation_delay_sec` each load,
which tests of scheduling and of loading like.

To add a backend: write these three classes, then name the first as an entry point of the group `charonia.backends`

    [project.entry-points."charonia.backends"]
    mine = "my_package.backend:MyBackend"

so that models with `backend: "mine"` find it. It is called without arguments, once for each server.
"""

import threading
import time

from charonia.backends.base import Batch, InstanceSpec, ModelContext
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import InferRequest
from charonia.core.tensor import Tensor


class IdentityBackend:
    """One for each server: knows how to load models. It keeps nothing."""

    name = "identity"

    def complete_config(self, context: ModelContext) -> ModelConfig:
        """There is no model file that could tell more than the configuration does."""
        return context.config

    def load(self, context: ModelContext) -> "IdentityModel":
        """Check the configuration: what fails here fails the load, with a reason that the user can act on.

        Raises:
            InvalidArgumentError: inputs and outputs don't pair up, or a delay is no number.
        """
        pairs, delay_s = _pairs(context), _parameter(context, "execute_delay_ms", "milliseconds") / 1000
        time.sleep(_parameter(context, "creation_delay_sec", "seconds"))
        return IdentityModel(pairs, delay_s)

    def close(self) -> None:
        """Nothing is shared between models."""


class IdentityModel:
    """One for each loaded model version: holds what its instances share."""

    def __init__(self, pairs: list[tuple[str, str]], delay_s: float) -> None:
        self._pairs = pairs
        self._delay_s = delay_s
        self._closing = threading.Event()

    def create_instance(self, spec: InstanceSpec) -> "IdentityInstance":
        return IdentityInstance(self._pairs, self._delay_s, self._closing)

    def close(self) -> None:
        self._closing.set()


class IdentityInstance:
    """One for each instance: executes batches, one at a time, on the thread that is its own."""

    healthy = True
    any_thread = True

    def __init__(self, pairs: list[tuple[str, str]], delay_s: float, closing: threading.Event) -> None:
        self._pairs = pairs
        self._delay_s = delay_s
        self._closing = closing

    def start(self, batch: Batch) -> None:
        """Answer every request. A backend that answers later calls `batch.hold()` here and returns."""
        batch.inputs_ready()
        if self._delay_s:
            self._closing.wait(self._delay_s)
        batch.outputs_ready()
        for request in batch.requests:
            batch.respond(request, [*self._outputs(request)])

    def close(self) -> None:
        """Nothing to free."""

    def _outputs(self, request: InferRequest) -> list[Tensor]:
        """The inputs under their output names, with the same buffers: nothing is copied."""
        tensors = [(output, request.inputs[name]) for name, output in self._pairs if name in request.inputs]
        return [Tensor(output, tensor.datatype, tensor.shape, tensor.buffer) for output, tensor in tensors]


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


def _parameter(context: ModelContext, name: str, unit: str) -> int:
    if name not in context.config.parameters:
        return 0
    text = context.config.parameters[name].string_value
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"model '{context.name}': parameter '{name}' must be a whole number of {unit}, got '{text}'"
        )
    return int(text)
