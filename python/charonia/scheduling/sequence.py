"""The scheduler for models with sequences.

One request of a sequence is executed at a time; the next may go when its answer has been sent. Which instance and slot
a sequence has is decided in `sequence_table.py`; how batches are formed from the sequences of one instance is the
business of its lane (`sequence_direct.py`, `sequence_oldest.py`).
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from charonia.core.clock import Clock
from charonia.core.protocols import Bell
from charonia.core.request import InferRequest, not_iterative, refuse
from charonia.scheduling.forming import END_OF_TIME_NS, NOTHING, Decision
from charonia.scheduling.queue import unloading
from charonia.scheduling.queued import AWAITS_TURN, Refused
from charonia.scheduling.rate_share import WaitingShares, share_of
from charonia.scheduling.sequence_gate import StartGate
from charonia.scheduling.sequence_lane import NewLane
from charonia.scheduling.sequence_line import LiveSequence
from charonia.scheduling.sequence_rules import check_request
from charonia.scheduling.sequence_table import SequencePlan, SequenceTable
from charonia.scheduling.timer import Timer

Ended = Callable[[object, int | str, str], None]
"""Told the seat of the instance that had the sequence, its id, and why it ended without its last request."""


class SequenceScheduler:
    """See `scheduling.base.Scheduler`.

    Args:
        new_lane: makes what forms the batches of one more instance.
        on_refused: told of every request that ends here, before it is answered (for statistics).
        on_ended: told of sequences that end without their last request; from any thread, so it must not block.
        gate: a testing aid.
    """

    def __init__(
        self,
        plan: SequencePlan,
        new_lane: NewLane,
        clock: Clock,
        timer: Timer,
        *,
        on_refused: Refused = lambda request, error: None,
        on_ended: Ended = lambda seat, correlation_id, reason: None,
        gate: StartGate | None = None,
    ) -> None:
        self._plan = plan
        self._new_lane = new_lane
        self._clock = clock
        self._timer = timer
        self._on_refused = on_refused
        self._on_ended = on_ended
        self._gate = gate or StartGate()
        self._lock = threading.Lock()
        self._table = SequenceTable(self, plan)
        self._numbers = count()
        self._asking = WaitingShares()
        self._armed_ns: int | None = None  # when the timer calls next
        self._stopped = False

    @property
    def pending_count(self) -> int:
        return self._table.pending

    @property
    def sequence_count(self) -> int:
        """Sequences of which something waits, is executed, or may still come."""
        return self._table.count

    def enqueue(self, request: InferRequest) -> None:
        """As in the protocol.

        Raises:
            InvalidArgumentError: the request can't belong to a sequence, or its sequence was not started.
        """
        check_request(request, self._plan.controls, needs_id=not self._plan.is_iterative)
        with self._lock:
            if self._stopped:
                raise unloading(request)
            self._table.add(request, self._clock.now_ns())
            if request.timeout_us:
                self._arm()
            if not self._gate.is_open:
                self._wake_all()
        self._tell()
        if request.cancelled:
            # Cancelled between its arrival and the queue: whoever cancelled saw no queue to tell.
            self.cancel(request)

    def next_batch(self, bell: Bell, seat: object) -> Sequence[InferRequest] | None:
        """As in the protocol; nobody waits at `bell`: each instance has sequences of its own."""
        share = share_of(seat)
        while True:
            with self._lock:
                decision = self._take(seat)
                if decision is None:
                    return None
                if decision.batch:
                    return decision.batch
                if decision is not AWAITS_TURN or share is None:
                    self._table.lanes[seat].wait(self._seconds_until(decision.wake_ns), decision)
                    continue
            share.wait()

    def take_batch(self, seat: object) -> Sequence[InferRequest] | None:
        """As `next_batch`, but () when there is none yet. Public for tests with a hand-driven clock."""
        with self._lock:
            decision = self._take(seat)
            return decision.batch if decision is not None else None

    def _take(self, seat: object) -> Decision | None:
        share = share_of(seat)
        lanes = self._table.lanes
        lane = lanes.get(seat)
        if lane is None or self._stopped or (lane.is_leaving and lane.is_empty):
            lanes.pop(seat, None)
            self._asking.drop(share)
            return None
        if self._gate.holds(lane, lanes.values(), self._table.backlog):
            return NOTHING
        decision = lane.decide(END_OF_TIME_NS if self._table.is_hastened else self._clock.now_ns())
        if share is not None and not self._asking.has_turn(share, bool(decision.batch)):
            return AWAITS_TURN
        if decision.batch:
            decision.batch = lane.hand_out(decision.batch)
            self._table.pending -= sum(not request.is_padding for request in decision.batch)
        return decision

    def _seconds_until(self, wake_ns: int | None) -> float | None:
        return None if wake_ns is None else max(0.0, (wake_ns - self._clock.now_ns()) / 1e9)

    def turn_over(self, sequence: LiveSequence) -> None:
        with self._lock:
            self._table.end_turn(sequence, self._clock.now_ns())
            self._arm()
        self._tell()

    def take_back(self, sequence: LiveSequence, request: InferRequest) -> None:
        if not self._plan.is_iterative:
            raise not_iterative(request.model_name)
        with self._lock:
            self._table.take_back(sequence, request, self._clock.now_ns())
            if self._stopped:
                self._table.clear()
        self._tell()
        if request.cancelled:
            self.cancel(request)

    def cancel(self, request: InferRequest) -> None:
        if isinstance(request.queue, LiveSequence):
            self.cancel_sequence(request.queue)

    def cancel_sequence(self, sequence: LiveSequence) -> None:
        with self._lock:
            self._table.cancel(sequence, self._clock.now_ns())
        self._tell()

    def end_sequence(self, correlation_id: int | str) -> None:
        """See `scheduling.base.SequenceEnder`."""
        with self._lock:
            self._table.end(correlation_id, self._clock.now_ns())
        self._tell()

    def expect(self, seats: Iterable[object]) -> None:
        with self._lock:
            for seat in seats:
                self._table.open_lane(self._new_lane(seat, next(self._numbers), self._lock), self._clock.now_ns())
        self._tell()

    def dismiss(self, seats: Iterable[object]) -> None:
        """As in the protocol, but each of these instances first ends the sequences that it has."""
        with self._lock:
            self._table.close_lanes(seats)

    def lost(self, seat: object) -> None:
        with self._lock:
            self._table.lose(seat, self._clock.now_ns())
        self._tell()

    def hasten(self) -> None:
        """As in the protocol. A sequence that has nothing to do gives its slot to one that waits for it."""
        with self._lock:
            self._table.is_hastened = True
            self._table.fill(self._clock.now_ns())
            self._wake_all()
        self._tell()

    def stop(self, why: str | None = None) -> None:
        with self._lock:
            self._stopped = True
            self._table.clear(why)
            self._wake_all()
        self._tell()
        self._timer.forget(self._on_time)

    def _wake_all(self) -> None:
        for lane in self._table.lanes.values():
            lane.wake()

    def _arm(self) -> None:
        """Have the timer call when something has been idle, or has waited, for too long; one call at a time."""
        deadline_ns = self._table.next_deadline_ns()
        if deadline_ns is not None and (self._armed_ns is None or deadline_ns < self._armed_ns) and not self._stopped:
            self._armed_ns = deadline_ns
            self._timer.at(deadline_ns, self._on_time)

    def _on_time(self) -> None:
        with self._lock:
            now_ns = self._clock.now_ns()
            if self._armed_ns is not None and self._armed_ns <= now_ns:
                self._armed_ns = None
            self._table.expire(now_ns)
            self._arm()
        self._tell()

    def _tell(self) -> None:
        """Without the lock: whoever is told may come back to the scheduler."""
        if not self._table.has_news:
            return
        with self._lock:
            refused, ended = self._table.news()
            self._asking.nudge()
        for request, error in refused:
            if not request.settled:
                self._on_refused(request, error)
            refuse(request, error)
        for seat, correlation_id, reason in ended:
            self._on_ended(seat, correlation_id, reason)
