"""The two threads of the control plane.

One waits in `take_control` and hands what it gets to the other, which runs an event loop. Nothing wakes while nothing
comes. Calls that are being answered are counted: above a limit no more are taken, so that the wire's own bound holds.
News of those in work are taken always.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

from charonia.core.log import Log
from charonia.core.protocols import OnDeath
from charonia.core.threads import SupervisedThread
from charonia.frontend.control.waiting import WaitingCalls

if TYPE_CHECKING:
    from charonia._wire import HttpCall, RpcCall

TAKE_TIMEOUT_S = 3600.0
"""Long: a taker is woken by calls and by the wire's shutdown."""
_PAUSE_S = 0.1
"""Between takes that return nothing early, which a wire that was shut down behind our back does."""


class ControlSource(Protocol):
    """Of the wire, what the control plane needs."""

    def take_control(self, max_calls: int, timeout_s: float) -> "list[HttpCall | RpcCall | int]": ...
    def wake_control(self) -> None: ...


class HttpServer(Protocol):
    """`AsgiBridge`."""

    async def serve(self, call: "HttpCall") -> None: ...
    def told(self, keys: Sequence[int]) -> None: ...


class DirectCalls(Protocol):
    """`Generate`: HTTP calls that need no event loop."""

    def takes(self, call: "HttpCall") -> bool: ...
    def told(self, keys: Iterable[int]) -> None: ...
    def close(self) -> None: ...


class RpcServer(Protocol):
    """`ControlRpc`."""

    async def serve(self, call: "RpcCall") -> None: ...


class ControlLoop:
    """Takes control calls and answers them, until `stop`.

    Args:
        on_death: told (thread name, exception) when one of the threads ends by a bug; the server is not live then.
        waiting: the calls that wait, whose threads end with this loop.
        direct: answers some of the calls itself; ends with this loop.
        max_open_calls: how many calls may be in work at once. A stream is in work until its end, so there may be many;
            one that waits takes about 45 KB, with its connection and its request.
    """

    def __init__(
        self,
        source: ControlSource,
        http: HttpServer,
        rpc: RpcServer,
        log: Log,
        on_death: OnDeath,
        waiting: WaitingCalls | None = None,
        direct: DirectCalls | None = None,
        max_open_calls: int = 8192,
    ) -> None:
        self._source = source
        self._http = http
        self._rpc = rpc
        self._log = log
        self._waiting = waiting or WaitingCalls()
        self._direct = direct
        self._max_open = max_open_calls
        self._open_calls = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = tuple(
            SupervisedThread(name, run, on_death)
            for name, run in (("control-take", self._take), ("control-loop", self._run))
        )

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End the threads; calls still in work are dropped. Call it after the wire's shutdown, which wakes the taker.

        Returns:
            False if the time ran out.
        """
        self._stopping.set()
        self._call_loop(self._loop.stop)
        if self._threads[1].ident is None:
            self._loop.close()  # never started
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._direct is not None:
            self._direct.close()
        waited = self._waiting.join(max(0.0, deadline - time.monotonic()))
        return waited and not any(thread.is_alive() for thread in self._threads)

    def _take(self) -> None:
        while not self._stopping.is_set():
            self._take_once()

    def _take_once(self) -> None:
        """Its calls are forgotten before the next one waits: their bodies count as long as they are known."""
        with self._lock:
            places = self._max_open - self._open_calls
        asked_at = time.monotonic()
        items = self._source.take_control(places, TAKE_TIMEOUT_S)
        calls = [item for item in items if not isinstance(item, int) and not self._is_direct(item)]
        news = [item for item in items if isinstance(item, int)]
        with self._lock:
            self._open_calls += len(calls)
            is_woken = self._open_calls < self._max_open and not places
        if calls:
            self._call_loop(self._dispatch, calls)
        if news:
            if self._direct is not None:
                self._direct.told(news)
            self._call_loop(self._http.told, news)
        if not (items or is_woken) and time.monotonic() - asked_at < TAKE_TIMEOUT_S / 2:
            self._stopping.wait(_PAUSE_S)

    def _is_direct(self, call: "HttpCall | RpcCall") -> bool:
        return self._direct is not None and _is_http(call) and self._direct.takes(call)

    def _call_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # closed: its thread has ended, by `stop` or by a death that was told
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._drop_tasks()
        finally:
            self._loop.close()

    def _drop_tasks(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _dispatch(self, calls: "Sequence[HttpCall | RpcCall]") -> None:
        for call in calls:
            if _is_http(call):
                self._begin(self._http.serve(call))
            else:
                self._begin(self._rpc.serve(cast("RpcCall", call)))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        with self._lock:
            was_full = self._open_calls >= self._max_open
            self._open_calls -= 1
        if was_full:
            self._source.wake_control()
        if not task.cancelled() and task.exception() is not None:
            self._log.error(f"a control call was dropped by a fault of the server: {task.exception()!r}")


def _is_http(call: "HttpCall | RpcCall") -> "TypeGuard[HttpCall]":
    return hasattr(call, "listener")
