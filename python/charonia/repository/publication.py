"""Publishing what changes often, where one publication takes long enough to be shared by many changes."""

import threading
from collections.abc import Callable


class Publication:
    """Calls `publish` after changes, never in two threads at once.

    To publish takes time by the number of models. So changes that come while one is shown are shown together by the
    next; else a thousand models would take half a minute to start or to stop.
    """

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish = publish
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._changes = 0
        self._shown = 0

    def show(self) -> None:
        """Show what was changed before this call, and return when it is shown."""
        mine = self._change()
        with self._publishing:
            if self._shown < mine:
                self._show()
        self._show_the_rest()

    def announce(self) -> None:
        """As `show`, but when somebody is publishing just now, it is left to them and this returns at once."""
        self._change()
        self._show_the_rest()

    def _change(self) -> int:
        with self._lock:
            self._changes += 1
            return self._changes

    def _show_the_rest(self) -> None:
        """Looked at after the lock is free, by whoever has published: who came meanwhile has left the change to it."""
        while self._shown < self._changes and self._publishing.acquire(blocking=False):
            try:
                self._show()
            finally:
                self._publishing.release()

    def _show(self) -> None:
        with self._lock:
            shown = self._changes
        self._publish()
        self._shown = shown
