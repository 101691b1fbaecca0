"""Replies of one request that a reader takes at its own pace: a thread or a coroutine."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from charonia.core.clock import waitable_s
from charonia.core.request import Reply
from charonia.core.room import Room


class ReplyQueue:
    """The ReplyChannel and the Flow of one request.

    Args:
        on_reply: called after replies have come, by whoever sent them; must not block.
        room: for how many there is room; those that come all the same are kept too.
    """

    def __init__(self, on_reply: Callable[[], None] = lambda: None, room: Room | None = None) -> None:
        self._on_reply = on_reply
        self._room = room or Room()
        self.has_room = self._room.has_room
        self.on_room = self._room.on_room
        self._changed = threading.Condition()
        self._replies: deque[Reply] = deque()
        self._sleeper: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._closed = False

    def send(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            reply.outputs = [tensor.to_owned() for tensor in reply.outputs]
        with self._changed:
            if self._closed:
                return
            for reply in replies:
                self._room.add(reply)
            self._replies.extend(replies)
            self._changed.notify_all()
            sleeper, self._sleeper = self._sleeper, None
        _wake(sleeper)
        self._on_reply()

    def take(self) -> list[Reply]:
        """All replies that are there, without waiting."""
        with self._changed:
            taken = list(self._replies)
            self._replies.clear()
        self._room.taken(len(taken))
        return taken

    def wait(self, timeout_s: float | None = None) -> list[Reply]:
        """As `take`, but waits until there is one; [] when the time ran out or after `close`."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._replies or self._closed,
                None if timeout_s is None else waitable_s(timeout_s),
            )
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
        self._room.open()


def _wake(sleeper: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None) -> None:
    if sleeper is None:
        return
    loop, asleep = sleeper
    with suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(_rouse, asleep)


def _rouse(asleep: asyncio.Future[None]) -> None:
    if not asleep.done():
        asleep.set_result(None)
