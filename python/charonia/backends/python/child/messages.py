"""`pb_utils.InferenceRequest`, `InferenceResponse` and what belongs to them."""

from __future__ import annotations

import json
from typing import Any, Callable, Iterable, Sequence

from . import arguments
from .errors import TritonError, TritonModelException, not_yet
from .tensor import Tensor

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
TRITONSERVER_MEMORY_GPU = 0
TRITONSERVER_MEMORY_CPU = 1

_new = object.__new__


class PreferredMemory:
    """Where the outputs of an inner request should lie."""

    def __init__(self, preferred_memory_type: int, preferred_device_id: int = 0) -> None:
        self.preferred_memory_type = preferred_memory_type
        self.preferred_device_id = preferred_device_id


class InferenceTrace:
    """The trace of a request; it has no context yet."""

    def get_context(self) -> str | None:
        return None


class InferenceResponse:
    """The answer to one request: outputs, or an error, and parameters."""

    __slots__ = ("_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: Iterable[Tensor] = (),
        error: TritonError | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        outputs = list(output_tensors)
        for tensor in outputs:
            if not isinstance(tensor, Tensor):
                raise arguments.no_tensor("output_tensors", tensor)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"error must be a TritonError, got {type(error).__name__}")
        self._outputs = outputs
        self._error = error
        self._parameters = None if parameters is None else arguments.parameters(parameters)

    def output_tensors(self) -> list[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def parameters(self) -> str:
        """As JSON."""
        return _to_json(self._parameters)


class InferenceResponseSender:
    """Sends the response of a request. Of plain models only the final one, before `execute` returns."""

    __slots__ = ("_closed", "_probe", "_request")

    def __init__(self, request: InferenceRequest) -> None:
        self._request = request
        self._closed = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if self._closed:
            raise TritonModelException("the response sender has been closed by an earlier final response")
        if response is None or flags != TRITONSERVER_RESPONSE_COMPLETE_FINAL:
            raise not_yet("a response sender that sends anything but one final response (decoupled models)")
        if not isinstance(response, InferenceResponse):
            raise TypeError(f"send needs an InferenceResponse, got {type(response).__name__}")
        self._closed = True
        self._request._sent = response

    def is_cancelled(self) -> bool:
        return self._request.is_cancelled()


class InferenceRequest:
    """One request, as `execute` gets it. Making one (for a call of another model) is legal, running it is not yet."""

    __slots__ = (
        "_correlation_id",
        "_flags",
        "_id",
        "_inputs",
        "_is_cancelled",
        "_parameters",
        "_preferred_memory",
        "_priority",
        "_prunes",
        "_requested",
        "_sender",
        "_sent",
        "_slot",
        "_timeout_us",
        "_trace",
        "model_name",
        "model_version",
    )

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Iterable[Tensor] = (),
        requested_output_names: Iterable[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory | None = None,
        trace: InferenceTrace | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self._id = arguments.text("request_id", request_id)
        self._correlation_id = arguments.correlation_id(correlation_id)
        self._inputs = arguments.tensors("inputs", inputs)
        self._requested: Sequence[str] = arguments.names("requested_output_names", requested_output_names)
        self._prunes = True
        self.model_name = arguments.text("model_name", model_name)
        self.model_version = arguments.whole("model_version", model_version)
        self._flags = arguments.whole("flags", flags)
        self._timeout_us = arguments.whole("timeout", timeout)
        self._priority = 0
        self._preferred_memory = preferred_memory
        self._trace = trace
        self._parameters = None if parameters is None else arguments.parameters(parameters)
        self._slot = 0
        self._is_cancelled: Callable[[int], Any] = _never
        self._sender: InferenceResponseSender | None = None
        self._sent: InferenceResponse | None = None

    @classmethod
    def _received(
        cls,
        facts: Any,
        inputs: list[Tensor],
        requested: Sequence[str],
        prunes: bool,
        slot: int,
        is_cancelled: Callable[[int], Any],
    ) -> InferenceRequest:
        """A request from the server.

        Args:
            facts: (id, correlation id, flags, timeout, priority, parameters).
            prunes: the client named its outputs; what the model returns beside them is left out.
            slot: what `is_cancelled` gets.
        """
        request = _new(cls)
        (
            request._id,
            request._correlation_id,
            request._flags,
            request._timeout_us,
            request._priority,
            request._parameters,
        ) = facts
        request._inputs = inputs
        request._requested = requested
        request._prunes = prunes
        request._slot = slot
        request._is_cancelled = is_cancelled
        request._sender = request._sent = request._trace = request._preferred_memory = None
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
        return _to_json(self._parameters)

    def timeout(self) -> int:
        """The request's own queue timeout in microseconds, 0 for none."""
        return self._timeout_us

    def priority(self) -> int:
        return self._priority

    def flags(self) -> int:
        return self._flags

    def set_flags(self, flags: int) -> None:
        self._flags = flags

    def preferred_memory(self) -> PreferredMemory | None:
        return self._preferred_memory

    def trace(self) -> InferenceTrace:
        return self._trace or InferenceTrace()

    def is_cancelled(self) -> bool:
        return bool(self._is_cancelled(self._slot))

    def get_response_sender(self) -> InferenceResponseSender:
        if self._sender is None:
            self._sender = InferenceResponseSender(self)
        return self._sender

    def set_release_flags(self, flags: int) -> None:
        if flags != TRITONSERVER_REQUEST_RELEASE_ALL:
            raise not_yet("rescheduling of requests")

    def exec(self, decoupled: bool = False) -> Any:
        raise not_yet("calling another model (InferenceRequest.exec)")

    async def async_exec(self, decoupled: bool = False) -> Any:
        raise not_yet("calling another model (InferenceRequest.async_exec)")


def _never(slot: int) -> bool:
    return False


def _to_json(parameters: Any) -> str:
    return json.dumps(parameters, ensure_ascii=False, separators=(",", ":")) if parameters else "{}"
