"""Calls of other models that a Python model makes (business logic scripting), on the server's side."""

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from charonia.backends.python.results import error_code
from charonia.core.clock import Clock
from charonia.core.errors import BackendError, CharoniaError, UnavailableError
from charonia.core.model_id import ModelId
from charonia.core.protocols import Submitter
from charonia.core.request import (
    ANY_VERSION,
    NO_PARAMETERS,
    Caller,
    Flow,
    InferRequest,
    Parameter,
    Reply,
    ReplyChannel,
    refuse,
)
from charonia.core.room import Room
from charonia.core.tensor import Tensor
from charonia.core.trace import RequestTrace


@dataclass(slots=True)
class CallDescription:
    """What a model says of a call.

    Attributes:
        model_name, model_version: the model to call; ANY_VERSION for the server's choice.
        correlation_id, flags: of the sequence that the call belongs to; 0 for none.
        timeout_us: how long it may wait for an instance, in microseconds; 0 for any time.
        requested_outputs: () for all.
        decoupled: whether any number of responses may come.
        ancestors: the models that wait for the caller, outermost first, without the caller itself.
        caller: the instance that waits for the answer, where that is known.
        trace: of the caller's request, where the call is to be traced with it.
    """

    model_name: str
    inputs: Sequence[Tensor]
    model_version: int = ANY_VERSION
    id: str = ""
    correlation_id: int | str = 0
    flags: int = 0
    timeout_us: int = 0
    priority: int = 0
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    requested_outputs: tuple[str, ...] = ()
    decoupled: bool = False
    ancestors: tuple[str, ...] = ()
    caller: Caller | None = None
    trace: RequestTrace | None = None


def described(
    description: Any,
    inputs: Sequence[Tensor],
    ancestors: tuple[str, ...],
    caller: Caller | None = None,
    open_requests: Callable[[], Iterable[InferRequest]] = tuple,
) -> CallDescription:
    """What `child.calling.description_of` gave, with inputs and callers.

    Args:
        open_requests: those that the caller has, of which one may be the traced one that the call is for.
    """
    model, version, id_, correlation_id, flags, timeout_us, priority, parameters, *wishes = description
    requested, decoupled, trace_number, _ = wishes
    return CallDescription(
        model,
        inputs,
        version,
        id_,
        correlation_id,
        flags,
        timeout_us,
        priority,
        parameters or NO_PARAMETERS,
        requested,
        decoupled,
        ancestors,
        caller,
        _trace_of(trace_number, open_requests()) if trace_number else None,
    )


def _trace_of(number: int, open_requests: Iterable[InferRequest]) -> RequestTrace | None:
    """None when the request has been answered: its trace may be over."""
    traces = (request.trace for request in open_requests)
    return next((trace for trace in traces if trace is not None and trace.number == number), None)


class OutgoingCalls:
    """The calls of one caller: an instance's process, or an inline model. Any thread may use it.

    Args:
        model: the caller's model.
        submitter: None where nothing is served; calls are refused then.
    """

    def __init__(self, model: ModelId, submitter: Submitter | None, clock: Clock) -> None:
        self._model = str(model)  # as ancestors have it, which cross to the processes of models
        self._submitter = submitter
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: WeakSet[InferRequest] = WeakSet()
        self._closed = False

    def begin(self, description: CallDescription, channel: ReplyChannel, flow: Flow | None = None) -> InferRequest:
        """Submit a call; see `submit`. `cancel` of the request that this gives ends it early, and so does `close`."""
        request = self.request(description, channel, flow)
        with self._lock:
            self._begun.add(request)
        self.submit(request)
        return request

    def submit(self, request: InferRequest, waits: bool = False) -> None:
        """Every outcome, also a refusal, arrives at the request's channel, maybe before this returns.

        Its inputs must not change before the last reply has come, unless their buffers are `owned`.

        Args:
            waits: the calling thread has nothing to do before the answer; it may execute the other model.
        """
        if self._closed or self._submitter is None:
            refuse(request, UnavailableError(f"model '{self._model}' can't call '{request.model_name}': it has ended"))
        elif waits:
            self._submitter.submit_waiting(request)
        else:
            self._submitter.submit(request)

    def close(self) -> None:
        """The caller has gone: cancel what was begun by `begin`, and submit nothing more."""
        with self._lock:
            self._closed = True
            begun = [request for request in self._begun if not request.settled]
        for request in begun:
            request.cancel()

    def request(self, description: CallDescription, channel: ReplyChannel, flow: Flow | None) -> InferRequest:
        """The request of a call, to be submitted."""
        inputs = {tensor.name: tensor for tensor in description.inputs}
        signature, batch_dim = _signature(inputs, description.requested_outputs)
        request = InferRequest(
            description.model_name,
            description.model_version,
            inputs,
            channel,
            self._clock.now_ns(),
            id=description.id,
            requested_outputs=description.requested_outputs,
            parameters=description.parameters,
            priority=description.priority,
            timeout_us=description.timeout_us,
            correlation_id=description.correlation_id,
            flags=description.flags,
            signature=signature,
            batch_dim=batch_dim,
            takes_stream=description.decoupled,
            flow=flow,
            ancestors=(*description.ancestors, self._model),
        )
        request.caller = description.caller
        if description.trace is not None:
            description.trace.follow(request)
        return request


class CallUnderWay(Room):
    """One call from its beginning to its last reply, and its Flow; what takes the replies derives from it.

    It knows its request only in between: the two refer to each other, and inputs are not small.
    """

    def __init__(self) -> None:
        super().__init__()
        self._request: InferRequest | None = None
        self._ended = False

    def begun(self, request: InferRequest) -> None:
        with self._lock:
            if not self._ended:
                self._request = request

    def ended(self) -> None:
        """Its last reply has come."""
        with self._lock:
            self._ended, self._request = True, None

    def cancel(self) -> None:
        """Nobody wants its responses any more."""
        request = self._request
        if request is not None:
            request.cancel()
        self.open()  # last: whoever waited for room finds the request cancelled


def _signature(inputs: Mapping[str, Tensor], requested_outputs: tuple[str, ...]) -> tuple[Hashable, int]:
    """(signature, batch dim) of a request, see `InferRequest`: under it the called model remembers that it is right."""
    first_dims = {tensor.shape[0] if tensor.shape else -1 for tensor in inputs.values()}
    if -1 in first_dims:  # tensors without dims: their rank would not be told from that of others
        return 0, -1
    forms = [(name, tensor.datatype, tensor.shape[1:]) for name, tensor in inputs.items()]
    return (requested_outputs, *forms), first_dims.pop() if len(first_dims) == 1 else -1


def lost(reply: Reply, error: Exception) -> Reply:
    """What the caller gets instead of a response that can't be handed on."""
    name = reply.request.model_name
    if isinstance(error, OSError):
        known: CharoniaError = UnavailableError(f"no shared memory for the outputs of model '{name}': {error}")
    else:
        text = f"the outputs of model '{name}' can't be handed on: {type(error).__name__}: {error}"
        known = BackendError(text)
    return Reply(reply.request, error=known, final=reply.final)


def call_failure(reply: Reply) -> tuple[int, str]:
    """The error of a call as the caller gets it: the code of a `TritonError`, and the text."""
    error = reply.error or _no_response(reply.request)
    text = str(error)
    if not reply.request.queue_start_ns:  # callers know a call that was refused at the door by these words
        text = f"Model {reply.request.model_name} - Error when running inference: {text}"
    return error_code(error), text


def _no_response(request: InferRequest) -> CharoniaError:
    return BackendError(f"model '{request.model_name}' ended without a response to the call")
