"""`pb_utils.InferenceRequest` and what belongs to it."""

from __future__ import annotations

import threading
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from . import arguments, calls
from .errors import TritonModelException
from .responses import (
    TRITONSERVER_REQUEST_RELEASE_ALL as TRITONSERVER_REQUEST_RELEASE_ALL,
)
from .responses import (
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE as TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
)
from .responses import (
    TRITONSERVER_RESPONSE_COMPLETE_FINAL as TRITONSERVER_RESPONSE_COMPLETE_FINAL,
)
from .responses import InferenceResponse as InferenceResponse
from .responses import to_json
from .senders import InferenceResponseSender as InferenceResponseSender
from .tensor import Tensor

if TYPE_CHECKING:
    from .runtime import Runtime

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2


class MemoryType(IntEnum):
    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU

_new = object.__new__
_MAKING_SENDERS = threading.Lock()


class PreferredMemory:
    """Where the outputs of an inner request should lie."""

    def __init__(self, preferred_memory_type: int, preferred_device_id: int = 0) -> None:
        if preferred_memory_type not in (TRITONSERVER_MEMORY_GPU, TRITONSERVER_MEMORY_CPU):
            raise TypeError(
                "preferred_memory_type must be TRITONSERVER_MEMORY_GPU or TRITONSERVER_MEMORY_CPU, "
                f"got {preferred_memory_type!r}"
            )
        self._memory_type = preferred_memory_type
        self._device_id = arguments.whole("preferred_device_id", preferred_device_id)


class InferenceTrace:
    """The trace of a request, to be given to the requests that a model makes for it: then these are traced too.

    Without arguments that of a request that is not traced.
    """

    __slots__ = ("_context", "_number")

    def __init__(self, number: int = 0, context: str | None = None) -> None:
        self._number = number
        self._context = context

    def get_context(self) -> str | None:
        """Of OpenTelemetry's traces: JSON with `traceparent`, for a tracer of the model's own. Else None."""
        return self._context


class InferenceRequest:
    """One request: as `execute` gets it, or made by a model to have another model execute it."""

    __slots__ = (
        "_correlation_id",
        "_flags",
        "_id",
        "_inputs",
        "_is_cancelled",
        "_model_name",
        "_model_version",
        "_parameters",
        "_preferred_memory",
        "_priority",
        "_release_flags",
        "_requested",
        "_running",
        "_sender",
        "_slot",
        "_timeout_us",
        "_trace",
        "_unwanted",
    )
    _runtime: Runtime  # of the class, see `request_class`

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Iterable[Tensor] | None = None,  # this one and the next two are needed: None raises TypeError
        requested_output_names: Iterable[str] | None = None,
        model_name: str | None = None,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory | None = None,
        trace: InferenceTrace | None = None,
        parameters: dict[str, Any] | None = None,
        priority: int = 0,
    ) -> None:
        self._id = arguments.text("request_id", request_id)
        self._correlation_id = arguments.correlation_id(correlation_id)
        self._inputs = arguments.tensors("inputs", inputs)
        self._requested: Sequence[str] = arguments.names("requested_output_names", requested_output_names)
        self._unwanted: Sequence[str] = ()
        self._model_name = arguments.text("model_name", model_name)
        self._model_version = arguments.whole("model_version", model_version)
        self._flags = arguments.whole("flags", flags)
        self._timeout_us = arguments.natural("timeout", timeout)
        self._priority = arguments.natural("priority", priority)
        self._preferred_memory: PreferredMemory | None = arguments.instance(
            "preferred_memory", preferred_memory, PreferredMemory
        )
        self._trace: InferenceTrace | None = arguments.instance("trace", trace, InferenceTrace)
        self._parameters = None if parameters is None else arguments.parameters(parameters)
        self._slot: Any = 0
        self._is_cancelled: Callable[[int], Any] = _never
        self._sender: InferenceResponseSender | None = None
        self._release_flags = TRITONSERVER_REQUEST_RELEASE_ALL
        self._running: list[Any] | None = []  # the calls of it that are under way; None: it came from the server

    @classmethod
    def _received(
        cls,
        facts: Any,
        inputs: list[Tensor],
        requested: Sequence[str],
        unwanted: Sequence[str],
        slot: int,
        is_cancelled: Callable[[int], Any],
    ) -> InferenceRequest:
        """A request from the server.

        Args:
            facts: (id, correlation id, flags, timeout, priority, parameters, trace): of the trace None, or its number
                and context.
            unwanted: outputs of the model that the client did not ask for: they are left out.
            slot: what `is_cancelled` gets, and the number of the request for the runtime.
        """
        request = _new(cls)
        (
            request._id,
            request._correlation_id,
            request._flags,
            request._timeout_us,
            request._priority,
            request._parameters,
            trace,
        ) = facts
        request._trace = None if trace is None else InferenceTrace(*trace)
        request._inputs = inputs
        request._requested = requested
        request._unwanted = unwanted
        request._slot = slot
        request._is_cancelled = is_cancelled
        request._release_flags = TRITONSERVER_REQUEST_RELEASE_ALL
        request._sender = request._running = request._preferred_memory = None
        request._model_name = ""
        request._model_version = -1
        return request

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._id

    def correlation_id(self) -> int | str:
        return self._correlation_id

    def requested_output_names(self) -> list[str]:
        """All outputs of the model when the client named none."""
        return list(self._requested)

    def parameters(self) -> str:
        """The request's parameters as JSON."""
        return to_json(self._parameters)

    def timeout(self) -> int:
        """The request's own queue timeout in microseconds, 0 for none."""
        return self._timeout_us

    def priority(self) -> int:
        return self._priority

    def flags(self) -> int:
        return self._flags

    def set_flags(self, flags: int) -> None:
        self._flags = arguments.whole("flags", flags)

    @property
    def _prefers_host(self) -> bool:
        """Outputs that lie on a device are to be copied to the host; otherwise everything stays where it was made."""
        preferred = self._preferred_memory
        return preferred is not None and preferred._memory_type == TRITONSERVER_MEMORY_CPU

    def trace(self) -> InferenceTrace:
        return self._trace or InferenceTrace()

    def is_cancelled(self) -> bool:
        return bool(self._is_cancelled(self._slot))

    def get_response_sender(self) -> InferenceResponseSender:
        sender = self._sender or self._make_sender()
        sender._is_taken = True
        return sender

    def _make_sender(self) -> InferenceResponseSender:
        """The one sender, for the runtime, which does not send by it."""
        with _MAKING_SENDERS:  # a second one would count as dropped
            if self._sender is None:
                self._sender = InferenceResponseSender(self)
        return self._sender

    def set_release_flags(self, flags: int) -> None:
        """TRITONSERVER_REQUEST_RELEASE_RESCHEDULE: `execute` gets the request again (iterative sequences)."""
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException(
                f"release flags must be TRITONSERVER_REQUEST_RELEASE_ALL or _RESCHEDULE (1 or 2), got {flags!r}"
            )
        self._release_flags = flags

    def exec(self, decoupled: bool = False) -> Any:
        """Have the model `model_name` execute this request, and wait.

        Returns:
            Its InferenceResponse; errors are responses too. With `decoupled` an iterator of responses, when the first
            has come; where the model ended them by none, the last one has no outputs.

        Raises:
            TritonModelException: in initialize and finalize.
        """
        return calls.call(self, arguments.flag("decoupled", decoupled))

    def async_exec(self, decoupled: bool = False) -> Any:
        """As `exec`, begun at once; gives a future to await. Cancelling the future cancels the call."""
        return calls.call_async(self, arguments.flag("decoupled", decoupled))

    def cancel(self) -> None:
        """Nobody wants the responses of this request's calls any more. One that waits ends with the error CANCELLED; a
        model that executes one is told by `is_cancelled()`, and what it answers counts."""
        for running in list(self._running or ()):
            running.cancel()


def request_class(runtime: Runtime) -> type[InferenceRequest]:
    """The class of requests of one runtime: several models may live in one process."""
    return type("InferenceRequest", (InferenceRequest,), {"__slots__": (), "_runtime": runtime})


def _never(slot: int) -> bool:
    return False
