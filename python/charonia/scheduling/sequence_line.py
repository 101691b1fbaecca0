"""One sequence while it lives: what of it waits, what of it is executed, and the state that is kept for it."""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from charonia.core.request import SEQUENCE_START, InferRequest

if TYPE_CHECKING:
    from charonia.scheduling.sequence_lane import Lane
    from charonia.scheduling.state import SequenceState, StateStore


class SequenceOwner(Protocol):
    """The scheduler that a sequence belongs to. None of these is called under its lock."""

    def turn_over(self, sequence: "LiveSequence") -> None:
        """What was executed of it is settled."""

    def take_back(self, sequence: "LiveSequence", request: InferRequest) -> None:
        """What was executed of it takes another turn."""

    def cancel_sequence(self, sequence: "LiveSequence") -> None:
        """One of its requests was cancelled while it waited."""


class _ShapeKey(NamedTuple):
    """Of a request with state: its inputs may be joined, and the states."""

    inputs: object
    states: object


class LiveSequence:
    """Implements `core.request.Turn` for the one request of it that is executed, and `Queue` for those that wait.

    Everything but what these two name is read and changed under the scheduler's lock.

    Attributes:
        id: the correlation id; a number and a text that look alike are two ids.
        waiting: its requests in their order; `running`: the one that an instance has.
        lane, slot: where it has its place; None and 0 while it is in the backlog.
        is_ready: its first waiting request may go into the next batch, since `ready_ns`.
        is_again: that request was executed before and takes another turn.
        is_closed: its last request has come; no other may follow.
        is_over: nothing of it is left.
        end_reason: what a listener is told when it ends without its last request; "" for nothing.
        expires_ns: when it has waited too long in the backlog; 0 for never.
    """

    __slots__ = (
        "_after",
        "_owner",
        "end_reason",
        "expires_ns",
        "id",
        "is_again",
        "is_closed",
        "is_over",
        "is_ready",
        "lane",
        "ready_ns",
        "running",
        "slot",
        "state",
        "waiting",
    )

    def __init__(self, owner: SequenceOwner, id: int | str, after: "LiveSequence | None") -> None:
        self._owner = owner
        self.id = id
        self._after = after
        self.waiting: deque[InferRequest] = deque()
        self.running: InferRequest | None = None
        self.lane: Lane | None = None
        self.slot = 0
        self.state: SequenceState | None = None
        self.is_ready = self.is_again = self.is_closed = self.is_over = False
        self.ready_ns = 0
        self.end_reason = ""
        self.expires_ns = 0

    @property
    def forerunner(self) -> "LiveSequence | None":
        """The last sequence of the same id before it that is not over yet: until then it waits in the backlog."""
        while self._after is not None and self._after.is_over:
            self._after = self._after._after
        return self._after

    def make_ready(self, now_ns: int, states: "StateStore | None") -> None:
        """Its first waiting request may be executed now; with its state, which is new where a sequence starts."""
        request = self.waiting[0]
        self.is_ready, self.ready_ns = True, now_ns
        if states is not None:
            if self.state is None or request.flags & SEQUENCE_START:
                self.state = states.new_sequence()
            key = request.shape_key
            request.shape_key = _ShapeKey(key.inputs if isinstance(key, _ShapeKey) else key, self.state.shapes)

    def hand_out(self) -> InferRequest:
        """Its first waiting request, which the caller has executed; its turn begins."""
        request = self.waiting.popleft()
        request.queue = None
        request.turn = self
        self.running = request
        self.is_ready = self.is_again = False
        if self.state is not None:
            request.inputs.update(self.state.inputs())
        return request

    def release(self) -> None:
        self._owner.turn_over(self)

    def reschedule(self, request: InferRequest) -> None:
        self._owner.take_back(self, request)

    def cancel(self, request: InferRequest) -> None:
        self._owner.cancel_sequence(self)
