"""How far the reader of one request's responses is behind: what waits for it, and who waits for room."""

import threading
from collections import deque
from collections.abc import Callable

from charonia.core.request import Reply

# Small responses come in bursts; a reader that wakes for each of them would cost more than they do.
_LIMIT = 64
# Large ones must not wait by the dozen for a reader that is slow.
_LIMIT_BYTES = 8 << 20


class Room:
    """The Flow of one request whose responses are counted here.

    Args:
        limit: how many responses may wait before there is no room; those that come all the same are counted too.
        limit_bytes: how many bytes their outputs may have together before there is no room.
    """

    def __init__(self, limit: int = _LIMIT, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._waiting: deque[int] = deque()  # the bytes of each
        self._waiting_bytes = 0
        self._listeners: list[Callable[[], None]] = []
        self._is_open = False

    def add(self, reply: Reply) -> None:
        """A response waits from now on."""
        nbytes = sum([tensor.buffer.nbytes for tensor in reply.outputs])
        with self._lock:
            self._waiting.append(nbytes)
            self._waiting_bytes += nbytes

    def taken(self, count: int) -> None:
        """The reader has taken the first `count` of those that wait; more than there are means all."""
        with self._lock:
            for _ in range(min(count, len(self._waiting))):
                self._waiting_bytes -= self._waiting.popleft()
        self._tell()

    def open(self) -> None:
        """Nobody reads any more: there is always room from now on."""
        self._is_open = True
        self._tell()

    def has_room(self) -> bool:
        return (len(self._waiting) < self._limit and self._waiting_bytes < self._limit_bytes) or self._is_open

    def on_room(self, listener: Callable[[], None]) -> None:
        with self._lock:
            waits = not self.has_room()
            if waits:
                self._listeners.append(listener)
        if not waits:
            listener()

    def _tell(self) -> None:
        with self._lock:
            listeners, self._listeners = (self._listeners, []) if self.has_room() else ([], self._listeners)
        for listener in listeners:
            listener()
