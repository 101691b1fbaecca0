"""A request on its way through the server, and the reply to it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

from charonia.core.errors import CharoniaError, UnsupportedError
from charonia.core.tensor import Tensor
from charonia.core.trace import RequestTrace

Parameter = bool | int | float | str
NO_PARAMETERS: Mapping[str, Parameter] = {}

ANY_VERSION = -1
"""Of a model: the version that the server chooses."""


class Timing(Protocol):
    """How long the parts of executing a request took, in nanoseconds."""

    input_ns: int
    infer_ns: int
    output_ns: int


class Reply:
    """One response, an error in its place, or the bare end of the request. Error wins; then `has_response`.

    Attributes:
        final: False only for responses of decoupled models that are followed by others.
        has_response: False for the end of a decoupled model's responses where no response comes with it: `outputs` is
            empty then, and `final` True.
        timing: of the whole request, in final replies to requests of other models, and to traced ones.
    """

    __slots__ = ("error", "final", "has_response", "outputs", "parameters", "request", "timing")

    def __init__(
        self,
        request: "InferRequest",
        outputs: Sequence[Tensor] = (),
        error: CharoniaError | None = None,
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        final: bool = True,
        has_response: bool = True,
    ) -> None:
        self.request = request
        self.outputs = outputs
        self.error = error
        self.parameters = parameters
        self.final = final
        self.has_response = has_response
        self.timing: Timing | None = None


class ReplyChannel(Protocol):
    """Where a request's replies go: the wire, an in-process caller, an ensemble, a BLS call.

    `send` takes the replies of one executed batch that share this channel; never blocks; never raises.
    The buffers of the outputs are read before `send` returns unless they are `owned`.
    """

    def send(self, replies: Sequence[Reply]) -> None: ...


class Flow(Protocol):
    """How far the reader of a request's responses is behind. Any thread may ask; nothing here blocks or raises.

    Who makes responses looks at it before each one but the first and waits while there is no room: in the user's own
    thread, never in one that serves others. A cancelled request always has room: what is sent then is dropped.
    """

    def has_room(self) -> bool: ...

    def on_room(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, when there is room again or the request is cancelled; at once if there is already."""


class Admission(Protocol):
    """A claim on a model version while a request of it is unsettled; `release` is called once, by `settle`."""

    def release(self) -> None: ...


class Turn(Protocol):
    """The turn of a request in its sequence, given by the scheduler of a model with state."""

    @property
    def state(self) -> "StateTurn | None":
        """What the server keeps for the sequence between its requests; None where the model has no such state."""

    def release(self) -> None:
        """The request is settled: the next one of the sequence may go. Called once, by `settle` or for its caller."""

    def reschedule(self, request: "InferRequest") -> None:
        """The request is not settled and takes another turn: it joins a later batch. The scheduler owns it again.

        Raises:
            UnsupportedError: the model's sequences are not iterative; the caller still owns the request.
        """


class StateTurn(Protocol):
    """One request's view of the state that the server keeps for its sequence."""

    def keep(self, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Take the new state out of a response's outputs, for the sequence's next request; gives the others."""


class Queue(Protocol):
    """Who holds a waiting request. `cancel` removes and settles it if it is still waiting there."""

    def cancel(self, request: "InferRequest") -> None: ...


class Caller(NamedTuple):
    """Who waits for the answer to a call of another model.

    Attributes:
        instance: whose code waits, by the `InstanceSpec` that it was made of.
        is_sure: it executes nothing before the answer comes; False where it may be a thread of the user's that waits.
    """

    instance: object
    is_sure: bool


class InferRequest:
    """One inference request. Its owner (front end → engine → queue → batch) settles it exactly once.

    Attributes:
        model_version: the version asked for, or ANY_VERSION.
        version: the version that serves it, as text; set by the engine.
        inputs: by name, shapes with batch dimension; the engine puts them in the model's order and applies reshape.
        requested_outputs: names in the request's order, () for all of the model's.
        correlation_id: 0 or "" for none.
        arrival_ns, deadline_ns: monotonic nanoseconds; deadline 0 for none.
        timeout_us: the request's own queue timeout in microseconds, 0 for none.
        batch_size: rows along the batch dimension, 1 for models that do not batch.
        shape_key: equal for two requests whose inputs may be joined in one batch.
        signature: equal only where names, datatypes, ranks, all dims but the first, and the requested outputs are: a
            hash of them, or what else stands for them; 0 for unknown.
        batch_dim: the first dim that all inputs share, -1 when they differ or are unknown.
        queue_start_ns: when it was accepted by a queue.
        takes_stream: its channel takes any number of responses: decoupled models may answer it.
        flow: how far its reader is behind; None for a reader that takes everything at once.
        ancestors: the models, by id, whose requests wait for this one, outermost first: ensembles, and callers by BLS.
        caller: the instance that waits for this one, also through ensembles; None for none, or where that isn't known.
        turn: its turn in its sequence, while it has one.
        trace: of this request; None for most.
        is_padding: stands for an empty slot of a batch: its channel drops what comes, and nothing is counted.
    """

    __slots__ = (
        "__weakref__",
        "_cancel_listener",
        "_open",
        "admission",
        "ancestors",
        "arrival_ns",
        "batch_dim",
        "batch_size",
        "caller",
        "cancelled",
        "channel",
        "correlation_id",
        "deadline_ns",
        "flags",
        "flow",
        "id",
        "inputs",
        "is_padding",
        "model_name",
        "model_version",
        "parameters",
        "priority",
        "queue",
        "queue_start_ns",
        "requested_outputs",
        "shape_key",
        "signature",
        "takes_stream",
        "timeout_us",
        "token",
        "trace",
        "turn",
        "version",
    )

    def __init__(
        self,
        model_name: str,
        model_version: int,
        inputs: dict[str, Tensor],
        channel: ReplyChannel,
        arrival_ns: int,
        id: str = "",
        requested_outputs: tuple[str, ...] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        deadline_ns: int = 0,
        priority: int = 0,
        timeout_us: int = 0,
        correlation_id: int | str = 0,
        flags: int = 0,
        token: object = None,
        signature: Hashable = 0,
        batch_dim: int = -1,
        takes_stream: bool = False,
        flow: Flow | None = None,
        ancestors: tuple[str, ...] = (),
    ) -> None:
        self.model_name = model_name
        self.model_version = model_version
        self.inputs = inputs
        self.channel = channel
        self.arrival_ns = arrival_ns
        self.id = id
        self.requested_outputs = requested_outputs
        self.parameters = parameters
        self.deadline_ns = deadline_ns
        self.priority = priority
        self.timeout_us = timeout_us
        self.correlation_id = correlation_id
        self.flags = flags
        self.token = token  # the channel's own: what it needs to find the caller again
        self.signature = signature
        self.batch_dim = batch_dim
        self.takes_stream = takes_stream
        self.flow = flow
        self.ancestors = ancestors
        self.caller: Caller | None = None
        self.version = ""
        self.batch_size = 1
        self.shape_key: object = None
        self.queue: Queue | None = None
        self.queue_start_ns = 0
        self.cancelled = False
        self.admission: Admission | None = None
        self.turn: Turn | None = None
        self.is_padding = False
        self.trace: RequestTrace | None = None
        self._cancel_listener: Callable[[], None] | None = None
        self._open = [True]

    def settle(self, *, keeps_turn: bool = False) -> bool:
        """Claim the right to send the final reply. True for exactly one caller; list.pop is atomic.

        Args:
            keeps_turn: the caller releases the turn, once the reply has been sent.
        """
        try:
            self._open.pop()
        except IndexError:
            return False
        if self.turn is not None and not keeps_turn:
            self.turn.release()
        if self.admission is not None:
            self.admission.release()
        return True

    @property
    def settled(self) -> bool:
        return not self._open

    def cancel(self) -> None:
        """The client no longer wants the answer: leave the queue at once, tell whoever is executing."""
        self.cancelled = True
        queue = self.queue
        if queue is not None:
            queue.cancel(self)
        listener = self._cancel_listener
        if listener is not None:
            listener()

    def on_cancel(self, listener: Callable[[], None] | None) -> None:
        """Call `listener` when the request is cancelled (at once if it already is). One listener; None removes it."""
        self._cancel_listener = listener
        if listener is not None and self.cancelled:
            listener()


SEQUENCE_START = 1
SEQUENCE_END = 2


def not_iterative(model_name: str) -> UnsupportedError:
    """For a request that is to be rescheduled and can't be."""
    return UnsupportedError(
        f"Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE by model '{model_name}': its configuration "
        "needs sequence_batching { iterative_sequence: true } for that"
    )


def refuse(request: InferRequest, error: CharoniaError) -> None:
    """Settle `request` with `error`, if nobody has settled it yet."""
    if request.settle():
        request.channel.send((Reply(request, error=error),))
