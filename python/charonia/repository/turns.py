"""One operation at a time on each model, in the order in which they were asked for."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager


class Turns:
    """Queues by name. A plain lock would let threads in by chance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[threading.Event]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Wait for this model's turn, and keep it until the end of the block."""
        self._wait(self._join(name))
        try:
            yield
        finally:
            self._leave(name)

    @contextmanager
    def of_all(self, names: Iterable[str]) -> Iterator[None]:
        """As `of`, for many. Only one thread may ask for many, and while it has a turn it must not ask for another."""
        places = [(name, self._join(name)) for name in names]
        with ExitStack() as left:
            for name, _ in places:
                left.callback(self._leave, name)
            for _, place in places:
                self._wait(place)
            yield

    def busy(self, name: str) -> bool:
        """Whether somebody has this model's turn."""
        with self._lock:
            return name in self._queues

    def waiting(self, name: str) -> int:
        """How many wait for it."""
        with self._lock:
            return max(0, len(self._queues.get(name, ())) - 1)

    def _join(self, name: str) -> threading.Event:
        place = threading.Event()
        with self._lock:
            queue = self._queues.setdefault(name, deque())
            queue.append(place)
            if len(queue) == 1:
                place.set()
        return place

    @staticmethod
    def _wait(place: threading.Event) -> None:
        place.wait()

    def _leave(self, name: str) -> None:
        with self._lock:
            queue = self._queues[name]
            queue.popleft()
            if queue:
                queue[0].set()
            else:
                del self._queues[name]
