"""Threads of the server's own, which must not end unnoticed."""

import threading
from collections.abc import Callable

from charonia.core.protocols import OnDeath


class SupervisedThread(threading.Thread):
    """A daemon thread, not started yet.

    Args:
        on_death: told when `work` ends by an exception, which is a bug.
    """

    def __init__(self, name: str, work: Callable[[], None], on_death: OnDeath) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._on_death = on_death

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._on_death(self.name, error)

    def finish(self, timeout_s: float | None) -> bool:
        """Wait for its end. False if that takes longer; one that was never started has ended."""
        if self.ident is not None:
            self.join(timeout_s)
        return not self.is_alive()
