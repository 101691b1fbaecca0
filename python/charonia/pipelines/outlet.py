"""Handing things on in the order in which they came, from many threads, without a thread of its own."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Outlet(Generic[T]):
    """Hands on what waits, together. Whoever comes while another thread is at it leaves its things to that one.

    Args:
        hand_on: must not raise, and if it does, what comes later is handed on still; may come back to this outlet.
    """

    def __init__(self, hand_on: Callable[[list[T]], None]) -> None:
        self._hand_on = hand_on
        self._lock = threading.Lock()
        self._waiting: list[T] = []
        self._busy = False

    def add(self, thing: T) -> None:
        """Put it at the end; whoever holds the lock that makes the order may call this, and `flush` without it."""
        with self._lock:
            self._waiting.append(thing)

    def flush(self) -> None:
        """Hand on what waits, unless another thread does."""
        while things := self._next():
            try:
                self._hand_on(things)
            finally:
                with self._lock:
                    self._busy = False

    def _next(self) -> list[T]:
        with self._lock:
            if self._busy or not self._waiting:
                return []
            self._busy = True
            things, self._waiting = self._waiting, []
            return things
