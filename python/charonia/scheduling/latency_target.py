"""Dynamic batching whose delay is chosen by a latency target. docs/batching.md tells the method."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial

from charonia.core.log import Log
from charonia.core.request import InferRequest
from charonia.scheduling.ceiling import Ceiling
from charonia.scheduling.delay_plan import DelayPlan, LatencyTarget, plan_delay
from charonia.scheduling.execution_times import ExecutionTimes
from charonia.scheduling.forming import END_OF_TIME_NS, AttentiveRule, Decision, DynamicBatching, WaitingLine
from charonia.scheduling.replay import Executed, Setting, quantile_of, replay

# What is replayed: 512 requests with one delay take about a third of a millisecond, and a plan tries 14 of them.
_REMEMBERED_REQUESTS = 512
_REMEMBERED_BATCHES = 64
# A plan is made so often at most, when so many requests have been executed since; and of fewer only after longer.
_PLAN_NS = 400_000_000
_PLAN_REQUESTS = 32
_RARE_PLAN_NS = 2_000_000_000
_RARE_REQUESTS = 8
# How much of a new error counts at once, of a larger and of a smaller one; and of a longer delay.
_WORSE_SHARE = 0.4
_BETTER_SHARE = 0.25
_RISE_SHARE = 0.5
# A regime counts, and is told of, when so many plans in a row agree.
_AGREEING = 3
# Older requests tell nothing about now.
_STALE_NS = 30_000_000_000


class Regime(Enum):
    """What the batcher does, as the log says it."""

    AT_ONCE = "requests wait for no others, which would make no larger batches"
    WAITING = "requests wait for others"
    OUT_OF_REACH = "can't be met, so requests wait for no others"


class LatencyTargetBatching:
    """A `BatchRule`: `DynamicBatching` with a delay that changes, and told what became of its batches.

    Args:
        forming: forms the batches; its delay belongs to this rule.
        name: how the log calls the target, as `latency_target_p95_ms`.
        defer: calls what it is given soon, on a thread that has the time, after a pause in which others can go on; by
            default at once.
    """

    def __init__(
        self,
        forming: DynamicBatching,
        target: LatencyTarget,
        name: str,
        model: str,
        log: Log,
        defer: Callable[[Callable[[], None]], None] = lambda step: step(),
    ) -> None:
        self._forming = forming
        self._target = target
        self._about = f"model '{model}': {name} ({target.latency_ns / 1e6:g} ms)"
        self._log = log
        self._defer = defer
        self._times = ExecutionTimes()
        self._lock = threading.Lock()  # of all below but what only plans change
        self._requests: deque[Executed] = deque(maxlen=_REMEMBERED_REQUESTS)
        self._batches: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED_BATCHES)
        self._ceiling = Ceiling()
        self._executing = 0  # rows
        self._ended = (0, 0, 0)  # the last batch: start, end, rows
        self._executed_since = 0
        self._planned_ns = 0
        self._is_planning = False
        self._gap_ns = 0.0
        self._error_ns = 0.0
        self._regime = Regime.AT_ONCE
        self._agreeing: tuple[Regime, int] = (Regime.AT_ONCE, 0)
        forming.delay_ns = 0

    @property
    def delay_us(self) -> float:
        """How long the oldest request waits for others now, in microseconds."""
        return self._forming.delay_ns / 1000

    @property
    def regime(self) -> Regime:
        return self._regime

    def decide(self, queue: WaitingLine, now_ns: int) -> Decision:
        decision = self._forming.decide(queue, now_ns)
        return decision if decision.wake_ns is None else self._unless_nobody_comes(queue, decision)

    def _unless_nobody_comes(self, queue: WaitingLine, growing: Decision) -> Decision:
        """Wait no longer, and wake for fewer rows, where there is a ceiling."""
        waiting = sum(request.batch_size for request in queue.waiting())
        with self._lock:
            self._ceiling.saw(waiting + self._executing)
            if self._ceiling.rows is None:
                return growing
            enough = self._ceiling.rows - self._executing
        if waiting >= enough:
            return self._forming.decide(queue, END_OF_TIME_NS)
        growing.wake_rows = min(growing.wake_rows, enough)
        return growing

    def taken(self, batch: Sequence[InferRequest], now_ns: int) -> None:
        """See `forming.AttentiveRule`."""
        if isinstance(self._forming, AttentiveRule):
            self._forming.taken(batch, now_ns)
        rows = sum(request.batch_size for request in batch)
        first_ns = min(request.queue_start_ns for request in batch)
        last_ns = max(request.queue_start_ns for request in batch)
        delay_ns = self._forming.delay_ns
        with self._lock:
            self._executing += rows
            # Nobody looks at the queue while all instances are busy: who came then, beside the batch of then?
            started_ns, ended_ns, ended_rows = self._ended
            beside = sum(each.batch_size for each in batch if started_ns < each.queue_start_ns < ended_ns)
            self._ceiling.saw(max(self._executing, ended_rows + beside))
            if delay_ns and self._gap_ns and now_ns >= first_ns + delay_ns:
                self._ceiling.waited(self._executing, (now_ns - last_ns) / self._gap_ns)

    def executed(self, batch: Sequence[InferRequest], started_ns: int, ended_ns: int) -> None:
        """A batch of this rule was executed; `started_ns` and `ended_ns` as the clock says. From any thread."""
        rows = sum(request.batch_size for request in batch)
        with self._lock:
            self._executing -= rows
            self._ended = (started_ns, ended_ns, rows)
            self._times.add(rows, ended_ns - started_ns)
            self._batches.append((started_ns, ended_ns))
            self._executed_since += len(batch)
            for request in batch:
                self._requests.append(
                    Executed(
                        request.queue_start_ns, request.arrival_ns, ended_ns, request.batch_size, request.shape_key
                    )
                )
            since_ns, is_due = self._planned_ns, not self._is_planning and self._is_due(ended_ns)
            if is_due:
                self._planned_ns, self._executed_since, self._is_planning = ended_ns, 0, True
        if is_due:
            self._defer(partial(self._plan, since_ns, ended_ns))

    def _is_due(self, now_ns: int) -> bool:
        since_ns, requests = now_ns - self._planned_ns, self._executed_since
        return (since_ns >= _PLAN_NS and requests >= _PLAN_REQUESTS) or (
            since_ns >= _RARE_PLAN_NS and requests >= _RARE_REQUESTS
        )

    def _plan(self, since_ns: int, now_ns: int) -> None:
        """The delay from now on; `since_ns` is when the present one was chosen."""
        with self._lock:
            recent = [each for each in self._requests if each.queued_ns > now_ns - _STALE_NS]
            setting = Setting(
                _most_at_a_time(self._batches), self._times.copy(), self._forming.max_rows, self._forming.preferred
            )
        requests = sorted(recent, key=lambda each: each.queued_ns)
        if len(requests) < _RARE_REQUESTS:
            self._is_planning = False
            return
        self._gap_ns = (requests[-1].queued_ns - requests[0].queued_ns) / len(requests)
        self._learn_error([each for each in requests if each.queued_ns >= since_ns], setting)
        self._go_on(plan_delay(requests, setting, self._target, self._error_ns))

    def _go_on(self, plans: Iterator[DelayPlan | None]) -> None:
        """The next step of a plan: in one piece it would hold up every other thread for milliseconds."""
        plan = next(plans)
        if plan is None:
            self._defer(partial(self._go_on, plans))
        else:
            self._is_planning = False
            self._follow(plan)

    def _learn_error(self, requests: Sequence[Executed], setting: Setting) -> None:
        """What the requests since the last plan took longer than a replay of just them says."""
        if len(requests) < _RARE_REQUESTS:
            return
        said = replay(requests, self._forming.delay_ns, self._target.quantile, setting).latency_ns
        took = quantile_of([each.answered_ns - each.arrived_ns for each in requests], self._target.quantile)
        # One moment in which everything stood still is no reason to despair.
        change = min(took - said - self._error_ns, self._target.latency_ns / 2)
        self._error_ns = max(0.0, self._error_ns + (_WORSE_SHARE if change > 0 else _BETTER_SHARE) * change)

    def _follow(self, plan: DelayPlan) -> None:
        delay_ns = self._forming.delay_ns
        rise_ns = plan.delay_ns - delay_ns
        self._forming.delay_ns = delay_ns + int(_RISE_SHARE * rise_ns) if rise_ns > 0 else plan.delay_ns
        if not plan.is_met:
            self._consider(Regime.OUT_OF_REACH)
        else:
            self._consider(Regime.WAITING if plan.delay_ns else Regime.AT_ONCE)

    def _consider(self, regime: Regime) -> None:
        """Change the regime when several plans agree, and say so."""
        before, count = self._agreeing
        self._agreeing = (regime, count + 1 if regime is before else 1)
        if regime is self._regime or self._agreeing[1] < _AGREEING:
            return
        was, self._regime = self._regime, regime
        if regime is Regime.OUT_OF_REACH:
            self._log.warning(f"{self._about} {regime.value}")
        else:
            again = " can be met again" if was is Regime.OUT_OF_REACH else ""
            self._log.info(f"{self._about}{again}: {regime.value}")


def _most_at_a_time(batches: Sequence[tuple[int, int]]) -> int:
    """How many were executed side by side, at most."""
    changes = sorted([(start, 1) for start, _ in batches] + [(end, -1) for _, end in batches])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return max(1, most)
