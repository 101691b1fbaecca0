"""What waits for a thread of a remote store."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from charonia.cache.store import Found

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """One that waits. After `until` (seconds, monotonic) it is a miss.

    Attributes:
        found: told what there is.
    """

    key: bytes
    found: Found
    until: float


class Jobs(Generic[T]):
    """A queue that gives several at once.

    Args:
        together: as many at most.
        limit: of the sum of the weights of what waits; None for none.
        enough: none are added to those whose weights come to this.
    """

    def __init__(self, together: int, limit: int | None = None, enough: int = 1) -> None:
        self._together = together
        self._limit = limit
        self._enough = enough
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._waiting: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._closed = False

    def put(self, job: T, weight: int = 0) -> bool:
        """False where it is not taken: too much waits, or nobody will come for it."""
        with self._lock:
            if self._closed or (self._limit is not None and self._weight + weight > self._limit):
                return False
            self._waiting.append((job, weight))
            self._weight += weight
            self._came.notify()
            return True

    def take(self) -> list[T]:
        """Wait for the next ones; none after `close`, when all have been taken."""
        with self._lock:
            while not self._waiting and not self._closed:
                self._came.wait()
            taken: list[T] = []
            sum_taken = 0
            while self._waiting and len(taken) < self._together and sum_taken < self._enough:
                job, weight = self._waiting.popleft()
                taken.append(job)
                sum_taken += weight
            self._weight -= sum_taken
            return taken

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._came.notify_all()
