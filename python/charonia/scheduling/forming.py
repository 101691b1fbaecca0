"""The rules by which a batch is formed. Pure functions of the queue and the time.

Sources: Triton's model configuration documentation (dynamic batcher); the order of the decisions is that of its
dynamic batch scheduler.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from charonia.core.request import InferRequest

# Later than any request may wait for others: their delay has 64 bits, in microseconds.
END_OF_TIME_NS = 2**80


@dataclass(slots=True)
class Decision:
    """Either a batch, or when to look again: `wake_ns` (None: only on arrivals) or at `wake_rows` waiting rows.

    While a batch is still growing, a request whose shape key differs from `shape_key` ends the growing.
    """

    batch: Sequence[InferRequest] = ()
    wake_ns: int | None = None
    wake_rows: int = 1
    shape_key: object = None


NOTHING = Decision()


class WaitingLine(Protocol):
    """What a rule looks at."""

    def waiting(self) -> Iterator[InferRequest]:
        """Who may be served, in that order."""

    def since_ns(self, requests: Sequence[InferRequest]) -> int:
        """Since when the first of these (at least one) has been able to join a batch."""


class BatchRule(Protocol):
    """Decides what an idle instance gets. Does not change the queue."""

    def decide(self, queue: WaitingLine, now_ns: int) -> Decision: ...


@runtime_checkable
class AttentiveRule(BatchRule, Protocol):
    """A rule that wants to know what becomes of its decisions."""

    def taken(self, batch: Sequence[InferRequest], now_ns: int) -> None:
        """The batch that was decided on last leaves the queue, to be executed. Under the scheduler's lock."""


class Gate(Protocol):
    """A further word on who may join a batch, under the scheduler's lock. Never raises."""

    def admits(self, request: InferRequest) -> bool:
        """Whether the request may join those before it, as the rule looks at one after the other."""


class OneByOne:
    """No batching: the oldest request of the most urgent level alone."""

    def decide(self, queue: WaitingLine, now_ns: int) -> Decision:
        for request in queue.waiting():
            return Decision(batch=(request,))
        return NOTHING


class DynamicBatching:
    """Join requests up to `max_batch_size` rows.

    Args:
        max_batch_size: never exceeded, in rows along the batch dimension.
        preferred_sizes: sizes worth releasing before the delay is over; empty means `max_batch_size`.
        max_queue_delay_us: how long the oldest request may wait for others, in microseconds; 0 for not at all.

    Attributes:
        delay_ns: the same in nanoseconds; may be changed at any time.
        max_rows, preferred: the sizes, of which there is at least one.
        gate: has the last word on who may join; None for nobody.
    """

    def __init__(self, max_batch_size: int, preferred_sizes: Sequence[int], max_queue_delay_us: int) -> None:
        self.max_rows = max_batch_size
        self.preferred = frozenset(preferred_sizes) or frozenset((max_batch_size,))
        self._sorted_preferred = sorted(self.preferred)
        self._max_preferred = self._sorted_preferred[-1]
        self.delay_ns = max_queue_delay_us * 1000
        self.gate: Gate | None = None

    def decide(self, queue: WaitingLine, now_ns: int) -> Decision:
        gate = self.gate
        picked: list[InferRequest] = []
        rows = best = 0
        full = False
        shape_key: object = None
        for request in queue.waiting():
            size = request.batch_size
            if picked:
                if not best and rows + size > self._max_preferred:
                    best = len(picked)
                if rows + size > self.max_rows or request.shape_key != shape_key:
                    full = True
                    break
            else:
                shape_key = request.shape_key
            if gate is not None and not gate.admits(request) and picked:
                full = True  # who may not even be the first of a batch is executed alone
                break
            picked.append(request)
            rows += size
            if rows in self.preferred:
                best = len(picked)
            if rows >= self.max_rows:
                full = True
                break
        if not picked:
            return NOTHING
        delay_ns = self.delay_ns
        overdue_ns = queue.since_ns(picked) + delay_ns if delay_ns else 0
        overdue = overdue_ns != 0 and now_ns >= overdue_ns
        if best and not overdue:
            return Decision(batch=picked[:best])
        if full or overdue or delay_ns == 0 or rows >= self._max_preferred:
            return Decision(batch=picked)
        return Decision(
            wake_ns=overdue_ns,
            wake_rows=next(size for size in self._sorted_preferred if size > rows),
            shape_key=shape_key,
        )
