"""Control calls that wait (a load takes minutes): on threads of their own, so that the event loop never does."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from charonia.core.errors import UnavailableError

T = TypeVar("T")

# Loads themselves are bounded by --model-load-thread-count; these threads only wait for them.
MAX_THREADS = 16
# Others wait in order. The rest of the control plane keeps places: the loop takes up to 1024 calls.
MAX_CALLS = 256


class WaitingCalls:
    """Runs calls that may wait. Everything but `join` belongs to the event loop's thread.

    The threads are daemons: a model's code that never returns keeps no process alive.
    """

    def __init__(self, max_threads: int = MAX_THREADS, max_calls: int = MAX_CALLS) -> None:
        self._places = asyncio.Semaphore(max_threads)
        self._max_calls = max_calls
        self._calls = 0
        self._threads: set[threading.Thread] = set()

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives. It goes on when the caller is cancelled: whoever asked for a load may leave.

        Raises:
            UnavailableError: too many are waiting already.
        """
        if self._calls >= self._max_calls:
            raise UnavailableError(f"{self._calls} loads and unloads are waiting already: ask again later")
        self._calls += 1
        try:
            async with self._places:
                return await asyncio.wrap_future(self._started(work))
        finally:
            self._calls -= 1

    def _started(self, work: Callable[[], T]) -> "Future[T]":
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # from now on nobody's leaving cancels it
        thread = threading.Thread(target=self._work, args=(work, done), name="control-wait", daemon=True)
        self._threads.add(thread)
        thread.start()
        return done

    def _work(self, work: Callable[[], T], done: "Future[T]") -> None:
        try:
            result = work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(result)
        finally:
            self._threads.discard(threading.current_thread())

    def join(self, timeout_s: float) -> bool:
        """Wait for the threads, once the models were told to stop. False if one is still busy."""
        deadline = time.monotonic() + timeout_s
        for thread in tuple(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
        return not self._threads
