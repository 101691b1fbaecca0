"""What a user's own batching strategy is given, and what it is asked. `charonia.batching` is where users find it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from charonia.core.request import InferRequest, Parameter
from charonia.core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Model:
    """The model version that a strategy is made for.

    Attributes:
        name, version: as in the repository.
        folder: the model's folder, the one with config.pbtxt.
        max_batch_size: no batch has more rows, whatever the strategy says.
        parameters: those of config.pbtxt, their `string_value` by key.
    """

    name: str
    version: int
    folder: Path
    max_batch_size: int
    parameters: Mapping[str, str] = field(default_factory=dict)


class Input:
    """One input of a waiting request: everything but its bytes."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def name(self) -> str:
        return self._tensor.name

    @property
    def datatype(self) -> str:
        """As on the wire: "FP32", "BYTES" and so on."""
        return self._tensor.datatype

    @property
    def shape(self) -> tuple[int, ...]:
        """With the batch dimension."""
        return self._tensor.shape

    @property
    def byte_size(self) -> int:
        """Of its data; of BYTES as they are sent, each element with the 4 bytes of its length."""
        return self._tensor.buffer.nbytes


class Request:
    """A waiting request, to look at. It belongs to the server: keep nothing of it after the call."""

    __slots__ = ("_request",)

    def __init__(self, request: InferRequest) -> None:
        self._request = request

    @property
    def id(self) -> str:
        """The client's; "" for none."""
        return self._request.id

    @property
    def rows(self) -> int:
        """Its size along the batch dimension."""
        return self._request.batch_size

    @property
    def priority(self) -> int:
        """As the client gave it; 0 for none."""
        return self._request.priority

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The client's own."""
        return MappingProxyType(self._request.parameters)

    @property
    def inputs(self) -> Mapping[str, Input]:
        """By name, those that the request brings."""
        return {name: Input(tensor) for name, tensor in self._request.inputs.items()}

    @property
    def byte_size(self) -> int:
        """The data of all its inputs."""
        return sum(tensor.buffer.nbytes for tensor in self._request.inputs.values())


class Strategy(Protocol):
    """Says who may join a batch that the dynamic batcher forms; the batcher's own limits hold beside it.

    A class with these methods, made once for each model version with the `Model`; what that raises fails the load. A
    batch is one `start_batch`, a `may_join` for each request in the order of service until one is refused, and one
    `finish_batch`; there is one batch at a time. When a request that was counted leaves the queue before its batch is
    complete, the batch is finished, and started anew with those that are left.

    The methods are called while the model's queue stands still, so they must be quick, must not block, and must not
    call the server. What they raise is logged once: the batch goes with what it has. A method `finalize(self)`, where
    there is one, is called when the model is unloaded.
    """

    def start_batch(self) -> Any:
        """A batch begins: gives what the strategy keeps for it, which the other two methods are given."""

    def may_join(self, batch: Any, request: Request) -> bool:
        """Whether `request` joins the batch, and, if so, count it. One that is refused waits for the next batch, and
        what comes after it too. The first request of a batch is asked about as well, and goes whatever is said."""

    def finish_batch(self, batch: Any) -> None:
        """The batch is complete, or given up: what `start_batch` gave is needed no longer."""
