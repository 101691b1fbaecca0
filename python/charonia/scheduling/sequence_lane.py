"""The sequences of one instance: all requests of a sequence are executed by the same one."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from charonia.core.clock import waitable_s
from charonia.core.request import InferRequest
from charonia.scheduling.forming import NOTHING, Decision
from charonia.scheduling.sequence_controls import SequenceControls
from charonia.scheduling.sequence_line import LiveSequence


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lane stands.

    Attributes:
        seat: the instance, as it calls itself.
        number: counts lanes in the order of their instances.
        slot_count: how many sequences it may have at a time.
        lock: the scheduler's, under which lanes are used.
    """

    seat: object
    number: int
    slot_count: int
    lock: threading.Lock
    controls: SequenceControls


class Lane(ABC):
    """One instance, and its slots. Used under the scheduler's lock.

    Attributes:
        seat, number: see `Place`.
        running: how many requests the instance has that are not settled.
        is_leaving: the instance takes no new sequences, and ends with its last one.
    """

    def __init__(self, place: Place) -> None:
        self.seat = place.seat
        self.number = place.number
        self.slots: list[LiveSequence | None] = [None] * place.slot_count
        self.running = 0
        self.is_leaving = False
        self._controls = place.controls
        self._changed = threading.Condition(place.lock)
        self._is_idle = False
        self._growing = NOTHING

    @property
    def is_empty(self) -> bool:
        return not any(self.slots)

    @property
    @abstractmethod
    def ready_count(self) -> int:
        """Sequences of which a request may be executed now."""

    @abstractmethod
    def add_ready(self, sequence: LiveSequence) -> None:
        """The sequence has its place here, and a request that may be executed."""

    @abstractmethod
    def drop_ready(self, sequence: LiveSequence) -> None:
        """That request does not wait any more."""

    @abstractmethod
    def decide(self, now_ns: int) -> Decision:
        """What to execute now, or when to look again. Changes nothing."""

    @abstractmethod
    def hand_out(self, batch: Sequence[InferRequest]) -> Sequence[InferRequest]:
        """What `decide` has chosen, as it is to be executed."""

    def hand_out_one(self, sequence: LiveSequence) -> InferRequest:
        """Its first request, with the controls."""
        self.drop_ready(sequence)
        self.running += 1
        request = sequence.hand_out()
        self._controls.apply(request)
        return request

    def wait(self, timeout_s: float | None, growing: Decision) -> None:
        """Of the instance: until something has changed that may matter. May return early."""
        self._is_idle, self._growing = True, growing
        self._changed.wait(None if timeout_s is None else waitable_s(timeout_s))
        self._is_idle = False

    def wake(self) -> None:
        """Have the instance look again, if it waits."""
        if self._is_idle:
            self._changed.notify()

    def wake_for(self, request: InferRequest) -> None:
        """The same after `request` became ready: not while too few are for the batch that is growing."""
        growing = self._growing
        if self.ready_count >= growing.wake_rows or growing.shape_key not in (None, request.shape_key):
            self.wake()


NewLane = Callable[[object, int, threading.Lock], Lane]
"""Makes the lane of an instance: its seat, its number, and the scheduler's lock."""
