"""One timer thread for each server: refusals come on time while every instance is busy."""

import heapq
import threading
from collections.abc import Callable

from charonia.core.clock import Clock, waitable_s

Callback = Callable[[], None]


class Timer:
    """Calls callbacks at times of the monotonic clock, on its own thread. A callback is short and never raises.

    Args:
        on_death: told when the thread ends by an exception, which is a bug.
    """

    def __init__(self, clock: Clock, on_death: Callable[[BaseException], None] | None = None) -> None:
        self._clock = clock
        self._on_death = on_death
        self._changed = threading.Condition()
        self._entries: list[tuple[int, int, Callback]] = []
        self._order = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="timer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def at(self, when_ns: int, callback: Callback) -> None:
        """Call `callback` once, not before `when_ns`."""
        with self._changed:
            self._order += 1
            entry = (when_ns, self._order, callback)
            heapq.heappush(self._entries, entry)
            if self._entries[0] is entry:
                self._changed.notify()

    def forget(self, callback: Callback) -> None:
        """Drop all calls of `callback` that are not due yet, and with them what it keeps in memory."""
        with self._changed:
            self._entries = [entry for entry in self._entries if entry[2] != callback]
            heapq.heapify(self._entries)

    def stop(self) -> None:
        """End the thread; what is still due is not called."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def run_due(self) -> int | None:
        """Call everything that is due; returns when the next is. Public for tests with a hand-driven clock."""
        while True:
            with self._changed:
                if not self._entries:
                    return None
                if self._entries[0][0] > self._clock.now_ns():
                    return self._entries[0][0]
                callback = heapq.heappop(self._entries)[2]
            callback()

    def _run(self) -> None:
        try:
            while self._wait():
                self.run_due()
        except BaseException as error:
            if self._on_death is None:
                raise
            self._on_death(error)

    def _wait(self) -> bool:
        with self._changed:
            while not self._stopping:
                if not self._entries:
                    self._changed.wait()
                    continue
                left_ns = self._entries[0][0] - self._clock.now_ns()
                if left_ns <= 0:
                    return True
                self._changed.wait(waitable_s(left_ns / 1e9))
            return False
