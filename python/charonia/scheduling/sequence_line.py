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
        before, follower: the sequences of the same id around it. Until the one before is over, it waits in the backlog:
            side by side in one instance, a model that goes by the id would mix them.
        waiting: its requests in their order; `running`: the one that an instance has.
        lane, slot: where it has its place; None and 0 while it is in the backlog.
        is_ready: its first waiting request may go into the next batch, since `ready_ns`.
        is_again: that request was executed before and takes another turn.
        is_refused: what is executed of it is answered by the scheduler, which ends its turn.
        is_closed: its last request has come; no other may follow.
        end_reason: what a listener is told when it ends without its last request; "" for nothing.
        expires_ns: when it has waited too long in the backlog; 0 for never.
    """

    __slots__ = (
        "_owner",
        "before",
        "end_reason",
        "expires_ns",
        "follower",
        "id",
        "is_again",
        "is_closed",
        "is_ready",
        "is_refused",
        "lane",
        "ready_ns",
        "running",
        "slot",
        "state",
        "waiting",
    )

    def __init__(self, owner: SequenceOwner, id: int | str, before: "LiveSequence | None") -> None:
        self._owner = owner
        self.id = id
        self.before = before
        self.follower: LiveSequence | None = None
        if before is not None:
            before.follower = self
        self.waiting: deque[InferRequest] = deque()
        self.running: InferRequest | None = None
        self.lane: Lane | None = None
        self.slot = 0
        self.state: SequenceState | None = None
        self.is_ready = self.is_again = self.is_refused = self.is_closed = False
        self.ready_ns = 0
        self.end_reason = ""
        self.expires_ns = 0

    @property
    def is_given_up(self) -> bool:
        """What is executed of it was cancelled: it is over when that is answered."""
        return self.running is not None and self.running.cancelled

    def leave(self) -> None:
        """It is over: its follower follows the one before it."""
        if self.before is not None:
            self.before.follower = self.follower
        if self.follower is not None:
            self.follower.before = self.before

    def first_unanswered(self) -> InferRequest | None:
        """The one that is executed, while it is not settled; else the first that waits."""
        if self.running is not None and not self.running.settled:
            return self.running
        return self.waiting[0] if self.waiting else None

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
