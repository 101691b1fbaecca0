"""The living sequences of one model version: which instance and slot each has, and when it is over.

No lock, no clock and no thread of its own: the scheduler calls it under its lock, and tells what it has collected.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from charonia.core.datatypes import BYTES
from charonia.core.errors import CharoniaError
from charonia.core.request import SEQUENCE_END, SEQUENCE_START, InferRequest
from charonia.scheduling.queue import unloaded
from charonia.scheduling.sequence_backlog import Backlog
from charonia.scheduling.sequence_controls import SequenceControls
from charonia.scheduling.sequence_idle import IdleSequences
from charonia.scheduling.sequence_lane import Lane
from charonia.scheduling.sequence_line import LiveSequence, SequenceOwner
from charonia.scheduling.sequence_rules import cancelled, expired, instance_died, not_started
from charonia.scheduling.state import StateStore

IDLE, CANCELLED = "idle", "cancelled"

WhyRefused = Callable[[InferRequest], CharoniaError]


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """What the configuration says.

    Attributes:
        idle_us: how long a sequence may have nothing to do, in microseconds.
        is_iterative: a request may be executed several times, and needs no correlation id.
        states: what the server keeps between the requests of a sequence; None for nothing.
    """

    controls: SequenceControls
    idle_us: int
    is_iterative: bool = False
    states: StateStore | None = None


class SequenceTable:
    """
    Attributes:
        lanes: by seat, the instances that may get batches.
        pending: how many requests wait; count: how many sequences live.
        is_hastened: no more requests are to be expected: a sequence that is idle gives its slot to one that waits.
    """

    def __init__(self, owner: SequenceOwner, plan: SequencePlan) -> None:
        self._owner = owner
        self._plan = plan
        self.lanes: dict[object, Lane] = {}
        self.backlog = Backlog()
        self.idle = IdleSequences(plan.idle_us)
        self.pending = self.count = 0
        self.is_hastened = False
        self._newest: dict[int | str, LiveSequence] = {}  # by id; one that takes no more requests may follow another
        self._free: list[tuple[int, int, Lane]] = []  # slots without a sequence: a heap, the lowest of all lanes first
        self._own_ids = count(1)
        self._refused: list[tuple[InferRequest, CharoniaError]] = []
        self._ended: list[tuple[object, int | str, str]] = []

    @property
    def has_news(self) -> bool:
        return bool(self._refused or self._ended)

    def news(self) -> tuple[Sequence[tuple[InferRequest, CharoniaError]], Sequence[tuple[object, int | str, str]]]:
        """Once each: requests that ended without being executed, with the reason; and the seat, the id, and the reason
        of each sequence that ended without its last request."""
        news = self._refused, self._ended
        self._refused, self._ended = [], []
        return news

    def add(self, request: InferRequest, now_ns: int) -> None:
        """Queue the request. Raises InvalidArgumentError if its sequence was not started."""
        sequence = self._sequence_of(request)
        request.queue, request.queue_start_ns = sequence, now_ns
        sequence.waiting.append(request)
        self.pending += 1
        if sequence.lane is not None:
            self._advance(sequence, now_ns)
            return
        if request.timeout_us:
            self.backlog.limit(sequence, now_ns + request.timeout_us * 1000)
        self.fill(now_ns)

    def _sequence_of(self, request: InferRequest) -> LiveSequence:
        """The sequence that the request belongs to, which may begin with it."""
        is_own = not request.correlation_id
        if is_own:
            self._number(request)
        known = self._newest.get(request.correlation_id)
        if known is not None and request.flags & SEQUENCE_START and known.is_given_up:
            known.is_closed = True  # else this request would end with it
        if known is None or known.is_closed:
            if not request.flags & SEQUENCE_START:
                raise not_started(request, self._plan.idle_us)
            known = LiveSequence(self._owner, request.correlation_id, known)
            self._newest[known.id] = known
            self.backlog.add(known)
            self.count += 1
        if is_own or request.flags & SEQUENCE_END:
            known.is_closed = True
        return known

    def _number(self, request: InferRequest) -> None:
        """Make a sequence of its own of a request without a correlation id; the id is one that nobody has now."""
        number = next(each for each in self._own_ids if each not in self._newest and str(each) not in self._newest)
        request.correlation_id = str(number) if self._plan.controls.id_datatype == BYTES else number
        request.flags = SEQUENCE_START

    def fill(self, now_ns: int) -> None:
        """Give free slots to those who wait for one."""
        while (sequence := self.backlog.first()) is not None and self._has_room():
            slot, _, lane = heapq.heappop(self._free)
            self.backlog.discard(sequence)
            sequence.lane, sequence.slot = lane, slot
            lane.slots[slot] = sequence
            self._advance(sequence, now_ns)

    def _has_room(self) -> bool:
        while not self._free and self.is_hastened and (longest := self.idle.longest()) is not None:
            self._end_idle(longest)
        return bool(self._free)

    def _advance(self, sequence: LiveSequence, now_ns: int) -> None:
        """Something of a sequence with a slot has changed: it goes on, it is over, or it is idle."""
        if sequence.running is not None:
            return
        if sequence.waiting:
            self.idle.discard(sequence)
            if not sequence.is_ready:
                self._make_ready(sequence, now_ns)
        elif sequence.is_closed or self._plan.is_iterative:
            self._remove(sequence)
        else:
            self.idle.add(sequence, now_ns)

    def _make_ready(self, sequence: LiveSequence, now_ns: int) -> None:
        lane = sequence.lane
        assert lane is not None
        sequence.make_ready(now_ns, self._plan.states)
        lane.add_ready(sequence)
        lane.wake_for(sequence.waiting[0])

    def _remove(self, sequence: LiveSequence) -> None:
        """Nothing of it waits or is executed, and nothing more of it will be: its state goes, its slot is free."""
        self.count -= 1
        sequence.leave()
        if sequence.follower is not None:
            self.backlog.line_up(sequence.follower)
        elif sequence.before is not None:
            self._newest[sequence.id] = sequence.before
        else:
            del self._newest[sequence.id]
        sequence.state = None
        self.idle.discard(sequence)
        self.backlog.discard(sequence)
        lane = sequence.lane
        if lane is None:
            return
        lane.slots[sequence.slot] = None
        if lane.is_leaving:
            lane.wake()
        else:
            heapq.heappush(self._free, (sequence.slot, lane.number, lane))
        if sequence.end_reason:
            self._ended.append((lane.seat, sequence.id, sequence.end_reason))

    def _abandon(self, sequence: LiveSequence, why: WhyRefused, reason: str, now_ns: int) -> None:
        """Refuse what waits of it; it is over once nothing of it is executed."""
        sequence.is_closed = True
        sequence.end_reason = reason
        self._drop_waiting(sequence, why)
        if sequence.lane is None:
            self._remove(sequence)
        else:
            self._advance(sequence, now_ns)

    def _drop_waiting(self, sequence: LiveSequence, why: WhyRefused) -> None:
        if sequence.is_ready and sequence.lane is not None:
            sequence.lane.drop_ready(sequence)
            sequence.is_ready = False
        self.pending -= len(sequence.waiting)
        for request in sequence.waiting:
            request.queue = None
            self._refused.append((request, why(request)))
        sequence.waiting.clear()

    def end_turn(self, sequence: LiveSequence, now_ns: int) -> None:
        """What was executed of it is settled."""
        if self._no_longer_runs(sequence).cancelled:
            self._abandon(sequence, cancelled, CANCELLED, now_ns)
        else:
            self._advance(sequence, now_ns)
        self.fill(now_ns)

    def take_back(self, sequence: LiveSequence, request: InferRequest, now_ns: int) -> None:
        """What was executed of it takes another turn: before all that waits. Nothing happens if its turn is over."""
        if sequence.running is not request or sequence.is_refused:
            return
        self._no_longer_runs(sequence)
        request.turn, request.queue, request.queue_start_ns = None, sequence, now_ns
        request.flags = 0
        sequence.waiting.appendleft(request)
        sequence.is_again = True
        self.pending += 1
        self._advance(sequence, now_ns)

    @staticmethod
    def _no_longer_runs(sequence: LiveSequence) -> InferRequest:
        request, lane = sequence.running, sequence.lane
        assert request is not None
        assert lane is not None
        sequence.running = None
        lane.running -= 1
        if not lane.running and lane.ready_count:
            lane.wake()
        return request

    def cancel(self, sequence: LiveSequence, now_ns: int) -> None:
        """One of its requests was cancelled while it waited: all that wait end with it, as in Triton."""
        if sequence.waiting:
            self._abandon(sequence, cancelled, CANCELLED, now_ns)
            self.fill(now_ns)

    def end(self, correlation_id: int | str, now_ns: int) -> None:
        """Nobody goes on with this sequence, nor wants what waits of it."""
        sequence = self._newest.get(correlation_id)
        if sequence is not None and (sequence.waiting or not sequence.is_closed):
            self._abandon(sequence, cancelled, CANCELLED, now_ns)
            self.fill(now_ns)

    def expire(self, now_ns: int) -> None:
        """End what was idle, and what waited in the backlog, for too long."""
        for sequence in self.idle.expired(now_ns):
            self._end_idle(sequence)
        for sequence in self.backlog.expired(now_ns):
            self._abandon(sequence, expired, "", now_ns)
        self.fill(now_ns)

    def _end_idle(self, sequence: LiveSequence) -> None:
        sequence.end_reason = IDLE
        self._remove(sequence)

    def next_deadline_ns(self) -> int | None:
        """When `expire` has something to do; None for never."""
        deadlines = (self.idle.next_deadline_ns(), self.backlog.next_deadline_ns())
        return min((each for each in deadlines if each is not None), default=None)

    def open_lane(self, lane: Lane, now_ns: int) -> None:
        """One more instance."""
        self.lanes[lane.seat] = lane
        for slot in range(len(lane.slots)):
            heapq.heappush(self._free, (slot, lane.number, lane))
        self.fill(now_ns)

    def close_lanes(self, seats: Iterable[object]) -> None:
        """These instances get no new sequences; each ends with the last one that it has."""
        for seat in seats:
            lane = self.lanes.get(seat)
            if lane is not None:
                lane.is_leaving = True
                lane.wake()
        self._free = [entry for entry in self._free if not entry[2].is_leaving]
        heapq.heapify(self._free)

    def lose(self, seat: object, now_ns: int) -> None:
        """What the model knew of these sequences is gone: they are over, unless the server has their state, or the next
        process begins with a first request.

        A later one that was handed out just then may be executed by the next process, which would begin in the middle:
        it is answered now, and what comes of it is dropped.
        """
        lane = self.lanes.get(seat)
        if lane is None or self._plan.states is not None:
            return
        for sequence in filter(None, list(lane.slots)):
            unanswered = sequence.first_unanswered()
            if unanswered is not None and unanswered.flags & SEQUENCE_START:
                continue
            if unanswered is not None and unanswered is sequence.running:
                sequence.is_refused = True
                self._refused.append((unanswered, instance_died(unanswered)))
            self._abandon(sequence, instance_died, "", now_ns)
        self.fill(now_ns)

    def clear(self, why: str | None = None) -> None:
        """Refuse all that waits. What is executed goes on."""
        living = [each for lane in self.lanes.values() for each in lane.slots if each is not None]
        for sequence in (*living, *self.backlog):
            sequence.is_closed = True
            self._drop_waiting(sequence, lambda request: unloaded(request, why))
