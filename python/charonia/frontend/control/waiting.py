"""Control calls that wait (a load takes minutes): on threads of their own, so that the event loop never does."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

from charonia.core.errors import UnavailableError
from charonia.core.text import shown

T = TypeVar("T")

# Loads themselves are bounded by --model-load-thread-count; these threads only wait for them.
MAX_THREADS = 16
# Others wait in order. The rest of the control plane keeps places: the loop takes up to 1024 calls.
MAX_CALLS = 256
MAX_CALLS_OF_ONE_MODEL = 64


class _Turn:
    """The calls about one model: one of them has the lock."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.calls = 0


class WaitingCalls:
    """Runs calls that may wait. Everything but `join` belongs to the event loop's thread.

    Calls about one model come one after the other, and so have one thread together: who asks again and again for a
    model whose load never ends keeps nobody else waiting. A place is taken until the work has ended, also when its
    caller has left. The threads are daemons: a model's code that never returns keeps no process alive.
    """

    def __init__(
        self,
        max_threads: int = MAX_THREADS,
        max_calls: int = MAX_CALLS,
        max_calls_of_one_model: int = MAX_CALLS_OF_ONE_MODEL,
    ) -> None:
        self._places = asyncio.Semaphore(max_threads)
        self._max_calls = max_calls
        self._max_calls_of_one_model = max_calls_of_one_model
        self._calls = 0
        self._turns: dict[str, _Turn] = {}
        self._threads: set[threading.Thread] = set()

    async def run(self, model: str, work: Callable[[], T]) -> T:
        """What `work` gives. Once begun it goes on when the caller is cancelled: whoever asked for a load may leave.

        Raises:
            UnavailableError: too many are waiting already.
        """
        turn = self._join(model)
        with ExitStack() as taken:
            taken.callback(self._leave, model)
            await turn.lock.acquire()
            taken.callback(turn.lock.release)
            await self._places.acquire()
            taken.callback(self._places.release)
            done = self._started(work)
            give_back = taken.pop_all().close  # by the end of the work, and no more by the end of this call
        done.add_done_callback(partial(self._on_done, asyncio.get_running_loop(), give_back))
        return await asyncio.wrap_future(done)

    def _join(self, model: str) -> _Turn:
        waiting = self._turns[model].calls if model in self._turns else 0
        if self._calls >= self._max_calls or waiting >= self._max_calls_of_one_model:
            raise UnavailableError(
                f"{self._calls} loads and unloads are waiting already, {waiting} of them of model '{shown(model)}': "
                "ask again later"
            )
        self._calls += 1
        turn = self._turns.setdefault(model, _Turn())
        turn.calls += 1
        return turn

    def _leave(self, model: str) -> None:
        self._calls -= 1
        self._turns[model].calls -= 1
        if not self._turns[model].calls:
            del self._turns[model]

    @staticmethod
    def _on_done(loop: asyncio.AbstractEventLoop, give_back: Callable[[], None], done: "Future[T]") -> None:
        """On the thread of the work."""
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(give_back)

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
