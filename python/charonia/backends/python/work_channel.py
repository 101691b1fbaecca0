"""The server's end of the work channel: batches and their answers, and notices in between."""

import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from charonia.backends.python.child import wire


class WorkChannel(wire.Channel):
    """As `wire.Channel`; `notice` is for threads that must not wait for the process, as `send` does."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._notices: deque[bytes] = deque()
        self._offering = threading.Lock()  # held by whoever sends anything
        self._rest = b""  # of a notice that was sent in part

    def notice(self, kind: int, meta: Any) -> None:
        """Send a frame that nobody waits for: now, or when the process has taken what lies before it.

        Raises:
            LinkClosed: the process has gone.
        """
        self._notices.append(wire.frame_bytes(kind, 0, meta))
        self.send_notices()

    def send_notices(self) -> None:
        """Send what can be sent without waiting. To be called when a batch has been answered: only while the process
        works on one does it leave notices unread. Raises LinkClosed."""
        while (self._notices or self._rest) and self._offering.acquire(blocking=False):
            try:
                data = self._taken()
                self._rest = data[self.offer(data) :]
                if self._rest:
                    return
            finally:
                self._offering.release()

    def send(self, kind: int, correlation: int, meta: Any, payload: Sequence[Any] = ()) -> None:
        with self._offering:
            data, self._rest = self._taken(), b""
            self.send_bytes(data + wire.frame_bytes(kind, correlation, meta, payload))

    def _taken(self) -> bytes:
        """All that waits, in order."""
        waiting = [self._rest]
        while self._notices:
            waiting.append(self._notices.popleft())
        return b"".join(waiting)
