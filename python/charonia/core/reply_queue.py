"""Replies of one request that a reader takes at its own pace."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from charonia.core.request import Reply

# Small responses come in bursts; a reader that wakes for each of them would cost more than they do.
_ROOM = 64


class ReplyQueue:
    """The ReplyChannel and the Flow of one request.

    Args:
        on_reply: called after replies have come, by whoever sent them; must not block.
        limit: how many replies may wait before there is no room; those that come all the same are kept too.
    """

    def __init__(self, on_reply: Callable[[], None] = lambda: None, limit: int = _ROOM) -> None:
        self._on_reply = on_reply
        self._limit = limit
        self._changed = threading.Condition()
        self._replies: deque[Reply] = deque()
        self._listeners: list[Callable[[], None]] = []
        self._closed = False

    def send(self, replies: Sequence[Reply]) -> None:
        with self._changed:
            if self._closed:
                return
            self._replies.extend(replies)
            self._changed.notify_all()
        self._on_reply()

    def take(self) -> list[Reply]:
        """All replies that are there, without waiting."""
        with self._changed:
            taken = list(self._replies)
            self._replies.clear()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        return taken

    def wait(self, timeout_s: float | None = None) -> list[Reply]:
        """As `take`, but waits until there is one; [] when the time ran out or after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._replies or self._closed, timeout_s)
        return self.take()

    def close(self) -> None:
        """The reader has gone: what comes from now on is dropped, and there is always room for it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.take()

    def has_room(self) -> bool:
        return len(self._replies) < self._limit or self._closed

    def on_room(self, listener: Callable[[], None]) -> None:
        with self._changed:
            waits = not self.has_room()
            if waits:
                self._listeners.append(listener)
        if not waits:
            listener()
