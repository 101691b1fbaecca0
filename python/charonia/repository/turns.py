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
        with self.of_all([name]):
            yield

    @contextmanager
    def of_all(self, names: Iterable[str]) -> Iterator[None]:
        """As `of`, for many. Only one thread may ask for many, and while it has a turn it must not ask for another."""
        with ExitStack() as left:
            places = []
            for name in names:
                places.append(self._join(name))
                left.callback(self._leave, name, places[-1])
            for place in places:
                place.wait()
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

    def _leave(self, name: str, place: threading.Event) -> None:
        """Also without having had the turn: Ctrl-C ends the wait of an embedded server's caller."""
        with self._lock:
            queue = self._queues[name]
            queue.remove(place)
            if queue:
                queue[0].set()
            else:
                del self._queues[name]
