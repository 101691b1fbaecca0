"""What the API of an inline model needs of the server: `Runtime` without a process in between."""

import _thread
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from charonia.backends.base import Batch, ModelContext
from charonia.backends.python.child.calling import description_of
from charonia.backends.python.child.calls import CALLERS, Callers
from charonia.backends.python.child.errors import TritonError, TritonModelException
from charonia.backends.python.child.messages import InferenceRequest
from charonia.backends.python.child.responses import InferenceResponse
from charonia.backends.python.child.runtime import ResponseSink
from charonia.backends.python.child.senders import InferenceResponseSender, dropped_error
from charonia.backends.python.encoding import callers_of
from charonia.backends.python.events import ModelEvents
from charonia.backends.python.inline_tensors import lend, take
from charonia.backends.python.outgoing import CallUnderWay, OutgoingCalls, call_failure, described, lost
from charonia.core.errors import CharoniaError
from charonia.core.request import Caller, InferRequest, Reply

# On an event loop others wait too, so there the wait for a slow reader has an end.
_LOOP_WAIT_S = 10.0


class Task:
    """One request in the hands of an inline model: what its sender knows it by.

    Attributes:
        answer: sends one of its responses; given (response or None for the bare end, whether it is the last).
        rescheduled: the request is the scheduler's again.
        is_unloading: its instance is; what the model lets go of now goes with it.
    """

    __slots__ = ("answer", "batch", "is_unloading", "request", "rescheduled")

    def __init__(
        self, batch: Batch, request: InferRequest, answer: "Callable[[Task, InferenceResponse | None, bool], None]"
    ) -> None:
        self.batch = batch
        self.request = request
        self.answer = answer
        self.rescheduled = False
        self.is_unloading = False

    @property
    def cancelled(self) -> bool:
        return self.request.cancelled


class _Executing(threading.local):
    caller: Caller | None = None


class InlineRuntime:
    """One for all instances of an inline model, which share its module.

    Attributes:
        open: the tasks that are executed, or held by the model.
        executing: for which instance the present thread executes the model, None for none.
    """

    def __init__(
        self, model_name: str, model_dir: str, decoupled: bool, events: ModelEvents, calls: OutgoingCalls
    ) -> None:
        self.model_name = model_name
        self.model_dir = model_dir
        self.decoupled = decoupled
        self.open: set[Task] = set()
        self._events = events
        self._calls = calls
        self._under_way: WeakSet[_InlineCall] = WeakSet()
        self.executing = _Executing()
        self._removals: deque[tuple[Any, ...]] = deque()

    def send(self, sender: InferenceResponseSender, response: InferenceResponse | None, final: bool) -> None:
        task: Task = sender._key
        if final:
            self.open.discard(task)
        elif task.request.flow is not None:
            sender._ahead = 1  # from now on it looks for room before each response
        task.answer(task, response, final)

    def wait_for_room(self, sender: InferenceResponseSender) -> None:
        request = sender._key.request
        if request.flow is None or request.cancelled or request.flow.has_room():
            return
        room = threading.Event()
        request.flow.on_room(room.set)
        if not room.wait(_LOOP_WAIT_S if _is_on_loop() else None):
            raise TritonModelException(
                "Unable to send response: its reader is too far behind, and waiting for it would hold the event loop "
                "up; send from a thread, which may wait"
            )

    def dropped(self, sender: InferenceResponseSender) -> None:
        task: Task = sender._key
        self.open.discard(task)
        if not (task.request.settled or task.rescheduled):
            error = dropped_error(sender, task.is_unloading)
            _thread.start_new_thread(_fail, (task, error))  # here no lock may be taken

    def infer(self, request: InferenceRequest, decoupled: bool, sink: ResponseSink) -> "_InlineCall":
        inputs = [take(tensor, copies=not sink.blocks) for tensor in request._inputs]
        caller = self.executing.caller if sink.blocks else None
        about = description_of(request, decoupled)
        description = described(about, inputs, self._callers(), caller, self._open_requests)
        call = _InlineCall(sink, request._prefers_host)
        self._under_way.add(call)
        call.begun(self._calls.begin(description, call, call))
        return call

    def _callers(self) -> Callers:
        """In a thread of the user's it is not known for which of the open requests it works."""
        callers = CALLERS.get()
        return callers_of(self._open_requests()) if callers is None else callers

    def _open_requests(self) -> list[InferRequest]:
        return [task.request for task in list(self.open)]

    def log(self, level: str, message: str, file: str, line: int) -> None:
        self._events.log(level, message, file, line)

    def call(self, operation: str, *arguments: Any) -> Any:
        self.remove_dropped()
        try:
            return self._events.call(operation, arguments)
        except CharoniaError as error:
            raise TritonModelException(str(error)) from None

    def cast(self, operation: str, *arguments: Any) -> None:
        if operation == "metric.remove":
            # This comes out of the garbage collector, maybe while this very thread holds the lock of the metrics.
            self._removals.append(arguments)
        else:
            self._events.casts([(operation, arguments)])

    def remove_dropped(self) -> None:
        """Take away the metrics that the model has dropped."""
        while self._removals:
            self._events.casts([("metric.remove", self._removals.popleft())])

    def close(self) -> None:
        """The model is gone: end what it still waits for."""
        self._calls.close()
        for call in list(self._under_way):
            call.cancel()
        self._events.close()


class _InlineCall(CallUnderWay):
    """A call to another model: its ReplyChannel and Flow for the server, its OutgoingCall for the model."""

    def __init__(self, sink: ResponseSink, prefers_host: bool) -> None:
        super().__init__()
        self._sink: Callable[[InferenceResponse | None, bool], None] = sink
        self._prefers_host = prefers_host

    def send(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            self.add(reply)
            self._sink(_response(reply, self._prefers_host), reply.final)
        if replies[-1].final:
            self.ended()
            self._sink = _nobody  # as the request, it refers to this call: tensors must go when the model drops them

    def attend(self, is_done: Callable[[], bool]) -> None:
        """There is nothing to read."""


def _nobody(response: InferenceResponse | None, final: bool) -> None:
    """The call has ended."""


def _response(reply: Reply, prefers_host: bool) -> InferenceResponse | None:
    if reply.error is not None or not (reply.has_response or reply.request.takes_stream):
        return _failed(reply)
    if not reply.has_response:
        return None
    try:
        response = InferenceResponse([lend(tensor, prefers_host) for tensor in reply.outputs])
    except Exception as error:  # a device's, or no memory: the caller must not wait for ever
        return _failed(lost(reply, error))
    response._parameters = dict(reply.parameters) or None
    return response


def _failed(reply: Reply) -> InferenceResponse:
    code, text = call_failure(reply)
    return InferenceResponse([], TritonError(text, code))


def new_runtime(context: ModelContext, model_dir: str, events: ModelEvents) -> InlineRuntime:
    server = context.server
    calls = OutgoingCalls(context.id, server.submitter, server.clock)
    decoupled = context.config.model_transaction_policy.decoupled
    return InlineRuntime(context.name, model_dir, decoupled, events, calls)


def _fail(task: Task, error: TritonError) -> None:
    task.answer(task, InferenceResponse([], error), True)


def _is_on_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
