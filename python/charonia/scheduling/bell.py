"""The plain bell: for instances that no front end wakes directly."""

import threading
from collections.abc import Sequence

from charonia.core.clock import waitable_s
from charonia.core.request import InferRequest


class ConditionBell:
    """Counts rings; a wait uses one up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings = 0

    def poll(self) -> Sequence[InferRequest]:
        return ()

    def wait(self, timeout_s: float | None) -> Sequence[InferRequest]:
        with self._changed:
            if not self._rings:
                self._changed.wait(None if timeout_s is None else waitable_s(timeout_s))
            if self._rings:
                self._rings -= 1
        return ()

    def ring(self, count: int = 1) -> None:
        with self._changed:
            self._rings += count
            self._changed.notify(count)
