"""Replies of one request that a reader takes at its own pace: a thread or a coroutine."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from charonia.core.request import Reply

# Small responses come in bursts; a reader that wakes for each of them would cost more than they do.
_ROOM = 64
# Large ones must not wait by the dozen for a reader that is slow.
_ROOM_BYTES = 8 << 20


class ReplyQueue:
    """The ReplyChannel and the Flow of one request.

    Args:
        on_reply: called after replies have come, by whoever sent them; must not block.
        limit: how many replies may wait before there is no room; those that come all the same are kept too.
        limit_bytes: how many bytes their outputs may have together before there is no room.
    """

    def __init__(
        self, on_reply: Callable[[], None] = lambda: None, limit: int = _ROOM, limit_bytes: int = _ROOM_BYTES
    ) -> None:
        self._on_reply = on_reply
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._replies: deque[Reply] = deque()
        self._waiting_bytes = 0
        self._listeners: list[Callable[[], None]] = []
        self._sleeper: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._closed = False

    def send(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            reply.outputs = [tensor.to_owned() for tensor in reply.outputs]
        with self._changed:
            if self._closed:
                return
            self._replies.extend(replies)
            self._waiting_bytes += sum(tensor.buffer.nbytes for reply in replies for tensor in reply.outputs)
            self._changed.notify_all()
            sleeper, self._sleeper = self._sleeper, None
        _wake(sleeper)
        self._on_reply()

    def take(self) -> list[Reply]:
        """All replies that are there, without waiting."""
        with self._changed:
            taken = list(self._replies)
            self._replies.clear()
            self._waiting_bytes = 0
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        return taken

    def wait(self, timeout_s: float | None = None) -> list[Reply]:
        """As `take`, but waits until there is one; [] when the time ran out or after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._replies or self._closed, timeout_s)
        return self.take()

    async def wait_async(self) -> list[Reply]:
        """As `wait`, for one coroutine."""
        loop = asyncio.get_running_loop()
        with self._changed:
            asleep = loop.create_future()
            if not self._replies and not self._closed:
                self._sleeper = (loop, asleep)
            else:
                asleep.set_result(None)
        await asleep
        return self.take()

    def close(self) -> None:
        """The reader has gone: what comes from now on is dropped, and there is always room for it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            sleeper, self._sleeper = self._sleeper, None
        _wake(sleeper)
        self.take()

    def has_room(self) -> bool:
        return (len(self._replies) < self._limit and self._waiting_bytes < self._limit_bytes) or self._closed

    def on_room(self, listener: Callable[[], None]) -> None:
        with self._changed:
            waits = not self.has_room()
            if waits:
                self._listeners.append(listener)
        if not waits:
            listener()


def _wake(sleeper: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None) -> None:
    if sleeper is None:
        return
    loop, asleep = sleeper
    with suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(_rouse, asleep)


def _rouse(asleep: asyncio.Future[None]) -> None:
    if not asleep.done():
        asleep.set_result(None)
