"""What would have been: the requests of the last moments, batched with another delay.

A replay knows the arrivals and what a batch takes, and keeps the rules of `DynamicBatching` for them: one line, a delay
counted from the oldest, preferred sizes, shapes that can't be joined. It knows no priorities and no time-outs.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from charonia.scheduling.execution_times import ExecutionTimes


class Executed(NamedTuple):
    """A request that was executed. Times in nanoseconds.

    Attributes:
        queued_ns: since when it could join a batch; arrived_ns: when it came to the server; answered_ns: its reply.
    """

    queued_ns: int
    arrived_ns: int
    answered_ns: int
    rows: int
    shape_key: object


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the requests are replayed.

    Attributes:
        instances: how many batches may be executed at a time.
        times: what a batch takes.
        max_rows: of a batch.
        preferred: sizes that are released at once, at least one.
    """

    instances: int
    times: ExecutionTimes
    max_rows: int
    preferred: frozenset[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`latency_ns`: from arrival to reply, at the quantile asked for; `mean_rows`: of a batch."""

    latency_ns: float
    mean_rows: float


def replay(requests: Sequence[Executed], delay_ns: int, quantile: float, setting: Setting) -> Outcome:
    """Batch `requests` (in the order in which they were queued, at least one) with a delay of `delay_ns`."""
    base_ns, row_ns = setting.times.base_ns, setting.times.row_ns
    free = [requests[0].queued_ns] * setting.instances  # when each instance is: a heap
    latencies: list[float] = []
    at, batches, all_rows = 0, 0, 0
    while at < len(requests):
        end, rows, released_ns = _next_batch(requests, at, free[0], delay_ns, setting)
        done_ns = released_ns + base_ns + row_ns * rows
        heapq.heapreplace(free, int(done_ns))
        latencies += [done_ns - request.arrived_ns for request in requests[at:end]]
        at, batches, all_rows = end, batches + 1, all_rows + rows
    return Outcome(quantile_of(latencies, quantile), all_rows / batches)


def _next_batch(
    requests: Sequence[Executed], first: int, free_ns: int, delay_ns: int, setting: Setting
) -> tuple[int, int, int]:
    """The batch that begins with `requests[first]`: where it ends, its rows, and when it is released."""
    queued_ns, _, _, _, key = requests[first]
    start_ns = max(free_ns, queued_ns)
    overdue = 0 < queued_ns + delay_ns <= start_ns if delay_ns else False
    released_ns = max(start_ns, queued_ns + delay_ns)
    largest = setting.max_rows if overdue else max(setting.preferred)
    rows = best = best_rows = 0
    at = first
    while at < len(requests):
        came_ns, _, _, size, its_key = requests[at]
        if came_ns > released_ns:
            break
        if came_ns > start_ns and best and not overdue:
            return best, best_rows, start_ns
        if at > first and (rows + size > setting.max_rows or its_key != key):
            released_ns = max(start_ns, came_ns)
            break
        rows += size
        at += 1
        if rows in setting.preferred:
            best, best_rows = at, rows
            if came_ns >= start_ns and not overdue:
                return at, rows, came_ns
        if rows >= largest:
            released_ns = max(start_ns, came_ns)
            break
    return at, rows, released_ns


def quantile_of(values: Sequence[float], quantile: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]
