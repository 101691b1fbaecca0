"""What is noted of one traced request, and of those that it leads to, while they are served.

A trace is done when its front end has done with the call and every request of it has been answered; then it is handed
over as a whole, once.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from charonia.core.clock import Clock
from charonia.core.request import InferRequest, Reply, ReplyChannel
from charonia.core.tensor import Tensor
from charonia.observe.stamps import Stamps
from charonia.observe.traces.setting import Level, TraceSetting

if TYPE_CHECKING:
    from charonia.observe.traces.context import SpanContext


class Note(NamedTuple):
    """Something noted beside the stamps that every request has."""

    name: str
    ns: int


class NotedTensor(NamedTuple):
    """A tensor at one point of the way: TENSOR_QUEUE_INPUT or TENSOR_BACKEND_OUTPUT. Its buffer is `owned`."""

    activity: str
    tensor: Tensor


class Trace:
    """The trace of one call of a client, from the network and back.

    Args:
        front: the front end's word in the names of stamps: HTTP or GRPC.
        parent: the caller's span; None without one, and where no context is needed.
        context: the span of this trace as a whole; None where none is needed.
        numbers: gives the numbers of traced requests.
        on_done: takes the trace, on whichever thread ends it; must not block.

    Attributes:
        begun_ns, arrival_ns: when its first and its last byte came.
        completed_ns: when each response left its model.
        sent_ns: when the (last) answer began to be sent, and when it was; None for one that was not sent.
        failure: the last error that was answered.
        wall_ns: what a monotonic stamp lacks of the time of day.
    """

    def __init__(
        self,
        setting: TraceSetting,
        front: str,
        begun_ns: int,
        arrival_ns: int,
        clock: Clock,
        numbers: "count[int]",
        on_done: "Callable[[Trace], None]",
        context: "SpanContext | None" = None,
        parent: "SpanContext | None" = None,
    ) -> None:
        self.setting = setting
        self.front = front
        self.begun_ns = begun_ns or arrival_ns
        self.arrival_ns = arrival_ns
        self.context = context
        self.parent = parent
        self.completed_ns: list[int] = []
        self.sent_ns: tuple[int, int] | None = None
        self.failure = ""
        self.wall_ns = time.time_ns() - time.monotonic_ns()
        self.requests: list[TracedRequest] = []
        self.clock = clock
        self._numbers = numbers
        self._on_done = on_done
        self._lock = threading.Lock()
        self._open = 1  # the front end
        self.number = next(numbers)

    @property
    def level(self) -> Level:
        return self.setting.level

    @property
    def notes_tensors(self) -> bool:
        """Spans have no place for them."""
        return bool(self.level & Level.TENSORS) and self.context is None

    def begin(self, request: InferRequest) -> None:
        """The call has become `request`, which is not submitted yet."""
        self._add(TracedRequest(self, self.number, None, request))

    def follow(self, parent: "TracedRequest", request: InferRequest) -> None:
        self._add(TracedRequest(self, next(self._numbers), parent, request))

    def _add(self, traced: "TracedRequest") -> None:
        with self._lock:
            self._open += 1
            self.requests.append(traced)

    def left(self, sent_ns: tuple[int, int] | None) -> None:
        """The front end has done with the call. To be called once."""
        self.sent_ns = sent_ns
        self.close()

    def close(self) -> None:
        with self._lock:
            self._open -= 1
            done = not self._open
        if done:
            self._on_done(self)


class TracedRequest:
    """One request of a trace: see `core.trace.RequestTrace`. Between the request and its channel it sees the replies.

    Attributes:
        parent: the traced request that led to this one.
        start_ns, end_ns: from where it was made to its last reply; `end_ns` 0 before that.
        queue_ns: when it was queued; 0 for one that was refused.
        stamps: of its execution, None where it was not executed.
        version: which served it; ANY_VERSION where none was found.
        context: its span, made when it is asked for.
    """

    __slots__ = (
        "_channel",
        "_has_steps",
        "_number",
        "context",
        "end_ns",
        "failure",
        "model_name",
        "notes",
        "parent",
        "queue_ns",
        "request_id",
        "stamps",
        "start_ns",
        "tensors",
        "trace",
        "version",
    )

    def __init__(self, trace: Trace, number: int, parent: "TracedRequest | None", request: InferRequest) -> None:
        self.trace = trace
        self._number = number
        self.parent = parent
        self.model_name = request.model_name
        self.request_id = request.id
        self.version = request.model_version
        self.start_ns = trace.clock.now_ns()
        self.end_ns = self.queue_ns = 0
        self.stamps: Stamps | None = None
        self.notes: list[Note] = []
        self.tensors: list[NotedTensor] = []
        self.failure = ""
        self.context = trace.context.child() if trace.context is not None else None
        self._has_steps = False
        self._channel: ReplyChannel | None = request.channel
        if trace.notes_tensors:
            self._note_tensors("TENSOR_QUEUE_INPUT", tuple(request.inputs.values()))
        request.trace = self
        request.channel = self

    @property
    def number(self) -> int:
        return self._number

    @property
    def handle(self) -> tuple[int, str | None]:
        return self.number, None if self.context is None else json.dumps(self.context.headers())

    def follow(self, request: InferRequest, *, is_step: bool = False) -> None:
        self._has_steps = self._has_steps or is_step
        self.trace.follow(self, request)

    def activity(self, name: str, ns: int) -> None:
        self.notes.append(Note(name, ns))

    def send(self, replies: Sequence[Reply]) -> None:
        """The ReplyChannel of the request."""
        channel = self._channel
        assert channel is not None
        ended = False
        for reply in replies:
            self._note(reply)
            ended = ended or reply.final
        channel.send(replies)
        if ended:
            self._channel = None  # it may refer to the request, and the trace lives longer
            self.trace.close()

    def _note(self, reply: Reply) -> None:
        now_ns = self.trace.clock.now_ns()
        if self.parent is None and (reply.has_response or reply.error is not None):
            self.trace.completed_ns.append(now_ns)
        if reply.error is not None:
            self.failure = str(reply.error)
        elif reply.has_response and self.trace.notes_tensors:
            self._note_tensors("TENSOR_BACKEND_OUTPUT", reply.outputs)
        if reply.final:
            request = reply.request
            self.end_ns = now_ns
            self.queue_ns = request.queue_start_ns
            self.version = int(request.version) if request.version else request.model_version
            if not self._has_steps and isinstance(reply.timing, Stamps):
                self.stamps = reply.timing

    def _note_tensors(self, activity: str, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            try:
                kept = tensor.to_owned() if tensor.buffer.device == "cpu" else tensor.copied()
                kept.buffer.host()  # read now, and not when its owner has written something else there
            except Exception:  # memory of a device that can't be read: the request must not suffer
                continue
            self.tensors.append(NotedTensor(activity, kept))
