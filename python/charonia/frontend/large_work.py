"""Work that would hold the event loop up: a few threads do it when it is about many bytes."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

# To read or write as much JSON takes about 1 ms.
_SMALL_BYTES = 256 << 10
_MAX_THREADS = 2


class LargeWork:
    """Runs work at once when it is small, on a thread of its own when it is large; belongs to one event loop.

    The threads are daemons, which nobody has to end: each ends with its work.
    """

    def __init__(self, small_bytes: int = _SMALL_BYTES) -> None:
        self._small_bytes = small_bytes
        self._places = asyncio.Semaphore(_MAX_THREADS)

    async def run(self, nbytes: int, work: Callable[[], T]) -> T:
        """What `work`, which is about `nbytes`, gives or raises."""
        if nbytes <= self._small_bytes:
            return work()
        async with self._places:
            done: Future[T] = Future()
            threading.Thread(target=_work, args=(work, done), name="large-work", daemon=True).start()
            return await asyncio.wrap_future(done)


def _work(work: Callable[[], T], done: "Future[T]") -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)
