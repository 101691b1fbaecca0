"""Testing aids: nothing of a model with sequences is executed until enough of it waits (`testing_aids.py`)."""

from collections.abc import Iterable

from charonia.scheduling.sequence_backlog import Backlog
from charonia.scheduling.sequence_lane import Lane


class StartGate:
    """Opens once. Used under the scheduler's lock.

    Args:
        start_at: how many requests must wait; 0 for an open gate.
        backlog_start_at: how many more must wait in the backlog, where `start_at` holds all instances together.
        is_each: every instance waits by itself, for so many sequences: that is how Triton's `oldest` counts.
    """

    def __init__(self, start_at: int = 0, backlog_start_at: int = 0, *, is_each: bool = False) -> None:
        self._start_at = start_at
        self._backlog_start_at = backlog_start_at
        self._is_each = is_each
        self._opened: set[Lane] = set()

    @property
    def is_open(self) -> bool:
        """For all instances."""
        return not self._start_at

    def holds(self, lane: Lane, lanes: Iterable[Lane], backlog: Backlog) -> bool:
        if self._start_at and lane not in self._opened:
            if self._is_each:
                if lane.ready_count < self._start_at:
                    return True
                self._opened.add(lane)
            else:
                waiting = sum(len(each.waiting) for one in lanes for each in one.slots if each is not None)
                if waiting < self._start_at or backlog.request_count < self._backlog_start_at:
                    return True
                self._start_at = 0
        return False
