"""The scheduler for models without state: one queue, one batch rule, any number of instances that pull."""

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence

from charonia.core.clock import Clock
from charonia.core.errors import CancelledError, CharoniaError, QueueTimeoutError
from charonia.core.protocols import Bell, Submitter
from charonia.core.request import InferRequest, refuse
from charonia.scheduling.forming import END_OF_TIME_NS, NOTHING, AttentiveRule, BatchRule, Decision
from charonia.scheduling.latency_target import LatencyTargetBatching
from charonia.scheduling.queue import ONE_LEVEL, PriorityLevels, RequestQueue, request_prefix, unloaded, unloading
from charonia.scheduling.rate_share import Share, WaitingShares, share_of
from charonia.scheduling.timer import Timer

Refused = Callable[[InferRequest, CharoniaError], None]

AWAITS_TURN = Decision()
"""There is a batch for the instance, but the rate limiter has others execute first."""


class QueuedScheduler:
    """See `scheduling.base.Scheduler`.

    Args:
        rule: how batches are formed.
        priorities: the levels of the queue and their policies.
        submitter: takes requests that a bell hands to a waiting instance.
        bell: rung when there may be work for an idle instance; the one that instances wait at.
        on_refused: told of every request that ends here, before it is answered (for statistics).
        start_at: nothing is released until so many requests wait (a testing aid of Triton's test suites); 0 for none.
    """

    def __init__(
        self,
        rule: BatchRule,
        clock: Clock,
        timer: Timer,
        submitter: Submitter,
        bell: Bell,
        *,
        priorities: PriorityLevels = ONE_LEVEL,
        on_refused: Refused = lambda request, error: None,
        start_at: int = 0,
    ) -> None:
        self._rule = rule
        self._clock = clock
        self._timer = timer
        self._submitter = submitter
        self._bell = bell
        self._on_refused = on_refused
        self._start_at = start_at
        self.on_executed = rule.executed if isinstance(rule, LatencyTargetBatching) else None
        self._on_taken = rule.taken if isinstance(rule, AttentiveRule) else None
        self._lock = threading.Lock()
        self._queue = RequestQueue(self, priorities)
        self._idle = 0  # instances inside a wait
        self._rung = 0  # of those, how many have been rung and have not come back yet
        self._growing = NOTHING
        self._armed: list[int] = []  # when the timer calls, a heap
        self._dismissed: set[object] = set()
        self._asking = WaitingShares()
        self._hastened = False
        self._stopped = False

    @property
    def pending_count(self) -> int:
        return self._queue.count

    @property
    def batch_delay_us(self) -> float | None:
        """How long a request waits for others now, where a latency target decides that; else None."""
        return self._rule.delay_us if isinstance(self._rule, LatencyTargetBatching) else None

    def enqueue(self, request: InferRequest) -> None:
        now_ns = self._clock.now_ns()
        with self._lock:
            self._push(request, now_ns)
            wake = self._claim_idle(request)
            arm_ns = self._deadline_to_arm()
        if arm_ns is not None:
            self._timer.at(arm_ns, self._on_deadline)
        if wake:
            self._bell.ring()
        if request.cancelled:
            # Cancelled between its arrival and the queue: whoever cancelled saw no queue to tell.
            self.cancel(request)

    def enqueue_all(
        self, requests: Sequence[InferRequest], *, takes: bool, share: Share | None = None
    ) -> tuple[Sequence[tuple[InferRequest, CharoniaError]], Sequence[InferRequest]]:
        """As `enqueue` for each of them, at once.

        Args:
            takes: the caller has an instance at hand: it gets a batch if one can be released now, and owns it then.
            share: of that instance.

        Returns:
            Those that are refused and the caller's again, with the reasons; and the batch.
        """
        now_ns = self._clock.now_ns()
        refused: list[tuple[InferRequest, CharoniaError]] = []
        pushed: list[InferRequest] = []
        with self._lock:
            for request in requests:
                try:
                    self._push(request, now_ns)
                except CharoniaError as error:
                    refused.append((request, error))
                else:
                    pushed.append(request)
            batch = self._released(now_ns).batch if takes and pushed else ()
            if batch and share is not None and not share.take():
                batch = ()
            if batch:
                self._take(batch, now_ns)
                rings = int(self._claim_idle_for_rest())
            else:
                rings = sum([self._claim_idle(request) for request in pushed])
            arm_ns = self._deadline_to_arm()
        if arm_ns is not None:
            self._timer.at(arm_ns, self._on_deadline)
        if rings:
            self._bell.ring(rings)
        for request in requests:
            if request.cancelled:
                self.cancel(request)
        return refused, batch

    def _push(self, request: InferRequest, now_ns: int) -> None:
        if self._stopped:
            raise unloading(request)
        self._queue.push(request, now_ns)

    def _claim_idle(self, request: InferRequest) -> bool:
        """Whether to ring for this request: an idle instance that nobody has rung yet has something to do."""
        if self._idle <= self._rung:
            return False
        growing = self._growing
        if (
            self._queue.rows < growing.wake_rows
            and (growing.shape_key is None or growing.shape_key == request.shape_key)
            and self._queue.keeps_arrival_order
        ):
            return False
        self._rung += 1
        return True

    def _claim_idle_for_rest(self) -> bool:
        """Whether to ring after requests left or moved without a batch: what is left may make one now."""
        if not self._queue.count or self._idle <= self._rung:
            return False
        self._rung += 1
        return True

    def next_batch(self, bell: Bell, seat: object = None) -> Sequence[InferRequest] | None:
        arrived = bell.poll()
        driving: threading.Lock | None = getattr(seat, "driving", None)
        share = share_of(seat)
        lent: threading.Lock | None = None
        while True:
            self._submit(arrived)
            arrived = ()  # not kept while this waits
            if lent is not None:
                self._take_back(lent)
            decision = self._decide(seat, share)
            if decision is None:
                return None
            if decision.batch:
                return decision.batch
            if decision is AWAITS_TURN and share is not None:
                lent = None
                share.wait()
                arrived = bell.poll()
                continue
            lent = driving
            if lent is not None:
                lent.release()
            arrived = self._wait(bell, decision)

    def _submit(self, arrived: Sequence[InferRequest]) -> None:
        for request in arrived:
            self._submitter.submit(request)

    def _take_back(self, lent: threading.Lock) -> None:
        """Go on when nobody else drives the instance any more. Meanwhile another may do what this one was woken for."""
        if lent.acquire(blocking=False):
            return
        with self._lock:
            wake = self._claim_idle_for_rest()
        if wake:
            self._bell.ring()
        lent.acquire()

    def _decide(self, seat: object, share: Share | None) -> Decision | None:
        """A batch, taken out of the queue; or, for an instance that is idle from now on, when to look again."""
        now_ns = self._clock.now_ns()
        with self._lock:
            if self._stopped or seat in self._dismissed:
                self._dismissed.discard(seat)
                self._asking.drop(share)
                return None
            rejected = self._queue.expire(now_ns)
            decision = self._released(now_ns)
            if share is not None and not self._asking.has_turn(share, bool(decision.batch)):
                decision = AWAITS_TURN  # what it would have taken grows meanwhile; another instance may have its turn
                more = self._claim_idle_for_rest()
            elif decision.batch:
                self._take(decision.batch, now_ns)
                more = self._queue.count > 0 and self._idle > self._rung
                self._rung += more
                if share is not None:  # else no instance here has any
                    self._nudge()
            else:
                self._growing = decision
                self._idle += 1
                more = False
        self._reject(rejected)
        if more:
            self._bell.ring()
        return decision

    def _nudge(self) -> None:
        """Those that wait for their turn need none any more, once nothing waits here."""
        if not self._queue.count:
            self._asking.nudge()

    def _take(self, batch: Sequence[InferRequest], now_ns: int) -> None:
        self._queue.take(batch)
        self._growing = NOTHING
        if self._on_taken is not None:
            self._on_taken(batch, now_ns)

    def _released(self, now_ns: int) -> Decision:
        if self._hastened:
            return self._rule.decide(self._queue, END_OF_TIME_NS)
        if self._start_at:
            if self._queue.count < self._start_at:
                return Decision(wake_rows=0)
            self._start_at = 0
        return self._rule.decide(self._queue, now_ns)

    def _wait(self, bell: Bell, decision: Decision) -> Sequence[InferRequest]:
        timeout_s = None if decision.wake_ns is None else max(0.0, (decision.wake_ns - self._clock.now_ns()) / 1e9)
        arrived = bell.wait(timeout_s)
        with self._lock:
            # A ring that this waiter did not use up stays in the bell and costs one early return later.
            self._idle -= 1
            self._rung = max(0, self._rung - 1)
        return arrived

    def cancel(self, request: InferRequest) -> None:
        with self._lock:
            removed = self._queue.remove(request)
            wake = removed and self._claim_idle_for_rest()
            self._nudge()
        if wake:
            self._bell.ring()
        if removed:
            self._refuse(request, CancelledError(f"{request_prefix(request)}the request was cancelled while it waited"))

    def expect(self, seats: Iterable[object]) -> None:
        """Whoever pulls gets what waits: nothing is set aside for anybody."""

    def lost(self, seat: object) -> None:
        """No request here depends on what an instance knows."""

    def dismiss(self, seats: Iterable[object]) -> None:
        with self._lock:
            self._dismissed.update(seats)
        self._wake_all()

    def hasten(self) -> None:
        with self._lock:
            self._hastened = True
            waiting = self._queue.count > 0
        if waiting:
            self._wake_all()

    def _wake_all(self) -> None:
        """Every idle instance looks again, one that leaves and those that do what it would have done."""
        with self._lock:
            asleep = self._idle - self._rung
            self._rung = self._idle
            self._asking.nudge()
        if asleep > 0:
            self._bell.ring(asleep)

    def stop(self, why: str | None = None) -> None:
        with self._lock:
            self._stopped = True
            waiting = list(self._queue.waiting())
            self._queue.take(waiting)
            idle = self._idle
            self._nudge()
        for request in waiting:
            self._refuse(request, unloaded(request, why))
        # One for each instance inside a wait: those that are busy look at the flag first.
        self._bell.ring(idle)
        self._timer.forget(self._on_deadline)

    def _deadline_to_arm(self) -> int | None:
        """The next deadline, unless the timer calls until then: every further call would arm yet another one."""
        deadline_ns = self._queue.next_deadline_ns()
        if deadline_ns is None or (self._armed and self._armed[0] <= deadline_ns):
            return None
        heapq.heappush(self._armed, deadline_ns)
        return deadline_ns

    def _on_deadline(self) -> None:
        now_ns = self._clock.now_ns()
        with self._lock:
            while self._armed and self._armed[0] <= now_ns:
                heapq.heappop(self._armed)
            rejected = self._queue.expire(now_ns)
            wake = self._claim_idle_for_rest()
            self._nudge()
            arm_ns = self._deadline_to_arm()
        if wake:
            self._bell.ring()
        self._reject(rejected)
        if arm_ns is not None:
            self._timer.at(arm_ns, self._on_deadline)

    def _reject(self, requests: Sequence[InferRequest]) -> None:
        for request in requests:
            self._refuse(
                request, QueueTimeoutError(f"Request timeout expired while it waited for model '{request.model_name}'")
            )

    def _refuse(self, request: InferRequest, error: CharoniaError) -> None:
        if not request.settled:
            self._on_refused(request, error)
        refuse(request, error)
