"""The waiting requests of one model version: priority levels, limits, time-outs. No threads, no clock of its own.

A request waits here while `request.queue` is its scheduler. Requests that leave from the middle (cancelled, timed
out) stay behind as tombstones that are skipped and, when there are many, swept.
"""

import heapq
from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from charonia.core.errors import QueueFullError, UnavailableError
from charonia.core.request import InferRequest, Queue
from charonia.core.text import shown


class TimeoutAction(Enum):
    """What happens to a request that waited too long."""

    REJECT = 0
    DELAY = 1


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """One level's rules; 0 means no time-out and no limit."""

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_us: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0

    def timeout_us(self, request: InferRequest) -> int:
        """A request may shorten the default, never extend it."""
        timeout_us, own_us = self.default_timeout_us, request.timeout_us
        if self.allow_timeout_override and own_us and (timeout_us == 0 or own_us < timeout_us):
            return own_us
        return timeout_us


@dataclass(frozen=True, slots=True)
class PriorityLevels:
    """The levels of one scheduler, by number; 1 is the most urgent.

    Attributes:
        count: how many there are; 0 means that priorities count for nothing and `default` is the only level.
        default: the level of requests without a priority, or with one that doesn't exist.
        policy: of every level that `named` has no policy for.
    """

    count: int = 0
    default: int = 1
    policy: QueuePolicy = QueuePolicy()
    named: Mapping[int, QueuePolicy] = field(default_factory=dict)

    def policy_of(self, number: int) -> QueuePolicy:
        return self.named.get(number, self.policy)


ONE_LEVEL = PriorityLevels()

# Levels of which nothing waits are kept up to here; further ones are made anew when a request needs them.
_KEPT_LEVELS = 16


class Level:
    """One priority level: requests in time, then those that a DELAY policy moved behind them."""

    __slots__ = ("delayed", "fresh", "live", "policy")

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.fresh: deque[InferRequest] = deque()
        self.delayed: deque[InferRequest] = deque()
        self.live = 0


class RequestQueue:
    """All levels of one scheduler. Every method is called under the scheduler's lock.

    A level exists from the first request that needs it: a configuration may have 2**64 of them.

    Args:
        owner: what `request.queue` is set to while a request waits here.
    """

    def __init__(self, owner: Queue, priorities: PriorityLevels) -> None:
        self._owner = owner
        self._priorities = priorities
        self._default = priorities.default
        self._highest = priorities.count
        self._levels: dict[int, Level] = {}
        self._numbers: list[int] = []  # of self._levels, sorted
        self._deadlines: list[tuple[int, int, InferRequest, Level]] = []
        self._order = 0
        self.count = 0
        self.rows = 0
        self._open(self._default)

    @property
    def keeps_arrival_order(self) -> bool:
        """Whether a request that comes now is sure to be served behind all that wait."""
        return len(self._numbers) == 1 and not self._levels[self._numbers[0]].delayed

    def push(self, request: InferRequest, now_ns: int) -> None:
        """Append to its level.

        Raises:
            QueueFullError: the level is at its limit.
        """
        number = self._number_of(request)
        level = self._levels.get(number) or self._open(number)
        policy = level.policy
        if policy.max_queue_size and level.live >= policy.max_queue_size:
            raise QueueFullError(
                f"{request_prefix(request)}Exceeds maximum queue size: model '{request.model_name}' already has "
                f"{level.live} requests waiting, its max_queue_size"
            )
        timeout_us = policy.timeout_us(request)
        if timeout_us:
            self._order += 1
            heapq.heappush(self._deadlines, (now_ns + timeout_us * 1000, self._order, request, level))
        request.queue = self._owner
        request.queue_start_ns = now_ns
        level.fresh.append(request)
        level.live += 1
        self.count += 1
        self.rows += request.batch_size

    def _number_of(self, request: InferRequest) -> int:
        return request.priority if 1 <= request.priority <= self._highest else self._default

    def _open(self, number: int) -> Level:
        level = self._levels[number] = Level(self._priorities.policy_of(number))
        insort(self._numbers, number)
        return level

    def waiting(self) -> Iterator[InferRequest]:
        """Who waits, in the order of service. The queue must not change during the iteration."""
        for number in self._numbers:
            level = self._levels[number]
            for line in (level.fresh, level.delayed):
                for request in line:
                    if request.queue is self._owner:
                        yield request

    @staticmethod
    def since_ns(requests: Sequence[InferRequest]) -> int:
        """When the first of these was queued."""
        return min(request.queue_start_ns for request in requests)

    def _drop_settled_front(self, line: deque[InferRequest]) -> None:
        while line and line[0].queue is not self._owner:
            line.popleft()

    def take(self, requests: Sequence[InferRequest]) -> None:
        """Remove waiting requests, wherever they stand; their places are free at once."""
        for request in requests:
            request.queue = None
            self.rows -= request.batch_size
        self.count -= len(requests)
        if len(self._numbers) == 1:  # as nearly always
            touched = {self._numbers[0]: len(requests)}
        else:
            touched = Counter(map(self._number_of, requests))
        for number, taken in touched.items():
            level = self._levels[number]
            level.live -= taken
            self._tidy(number, level)

    def _tidy(self, number: int, level: Level) -> None:
        self._drop_settled_front(level.fresh)
        self._drop_settled_front(level.delayed)
        if len(level.fresh) + len(level.delayed) > 2 * level.live + 64:
            self._sweep(level)
        if not level.live and len(self._numbers) > _KEPT_LEVELS:
            del self._levels[number]
            self._numbers.remove(number)

    def remove(self, request: InferRequest) -> bool:
        """As `take`, for one request. False if it does not wait here (any more)."""
        if request.queue is not self._owner:
            return False
        self.take((request,))
        return True

    def _sweep(self, level: Level) -> None:
        level.fresh = deque(request for request in level.fresh if request.queue is self._owner)
        level.delayed = deque(request for request in level.delayed if request.queue is self._owner)

    def expire(self, now_ns: int) -> list[InferRequest]:
        """Apply time-outs that have passed: REJECT removes and returns requests, DELAY moves them behind the others."""
        rejected: list[InferRequest] = []
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            _, _, request, level = heapq.heappop(self._deadlines)
            if request.queue is not self._owner:
                continue
            if level.policy.timeout_action is TimeoutAction.REJECT:
                self.remove(request)
                rejected.append(request)
            else:
                level.fresh.remove(request)
                level.delayed.append(request)
        return rejected

    def next_deadline_ns(self) -> int | None:
        """When `expire` has something to do, as far as is known; None for never."""
        deadlines = self._deadlines
        if len(deadlines) > 2 * self.count + 64:
            deadlines[:] = [entry for entry in deadlines if entry[2].queue is self._owner]
            heapq.heapify(deadlines)
        while deadlines and deadlines[0][2].queue is not self._owner:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None


def request_prefix(request: InferRequest) -> str:
    """How messages about one request begin, so that a client finds it again."""
    return f"[request id: {shown(request.id) or '<id_unknown>'}] "


def unloading(request: InferRequest) -> UnavailableError:
    """What a request hears that comes too late."""
    return UnavailableError(f"{request_prefix(request)}model '{request.model_name}' is being unloaded")


def unloaded(request: InferRequest, why: str | None = None) -> UnavailableError:
    """What a request hears that waited until its model was gone. `why`: as in `Scheduler.stop`."""
    reason = f": {why}" if why else ""
    return UnavailableError(f"{request_prefix(request)}model '{request.model_name}' was unloaded{reason}")
