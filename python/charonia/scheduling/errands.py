"""Work that a thread takes upon itself while it is in the middle of other work."""

import threading
from collections.abc import Callable


class Errands:
    """Runs errands one after the other on the thread that brings them: one that leads to another does not nest it, so
    a chain of any length needs no deeper stack."""

    def __init__(self) -> None:
        self._mine = threading.local()

    def run(self, errand: Callable[[], None]) -> None:
        """Do it now, or, on a thread that is at one, right after that. It must not raise."""
        waiting: list[Callable[[], None]] | None = getattr(self._mine, "waiting", None)
        if waiting is not None:
            waiting.append(errand)
            return
        self.apart(errand)

    def apart(self, errand: Callable[[], None]) -> None:
        """Do it now and all that it leads to, also in the middle of another one, which needs the outcome to go on."""
        outer = getattr(self._mine, "waiting", None)
        waiting: list[Callable[[], None]] = []
        self._mine.waiting = waiting
        try:
            errand()
            while waiting:
                waiting.pop(0)()
        finally:
            self._mine.waiting = outer
