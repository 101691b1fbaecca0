"""Calls of other models: what `exec` and `async_exec` give, and what they wait at."""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Callable, Iterator, Tuple

from .errors import TritonError, TritonModelException
from .responses import InferenceResponse
from .runtime import WARNING

if TYPE_CHECKING:
    from .messages import InferenceRequest
    from .runtime import OutgoingCall

Callers = Tuple[str, ...]

# The models that wait for what `execute` is working on, outermost first; None where it is not known for whom the code
# runs: a thread of the user's has a context of its own.
CALLERS: ContextVar[Callers | None] = ContextVar("charonia_callers", default=None)

_PID = os.getpid()
_OUTSIDE: ContextVar[bool] = ContextVar("charonia_outside_execute", default=False)


@contextmanager
def outside_execute() -> Iterator[None]:
    """For initialize and finalize, where calls are refused, as in Triton: the model is not there for others then."""
    token = _OUTSIDE.set(True)
    try:
        yield
    finally:
        _OUTSIDE.reset(token)


def call(request: InferenceRequest, decoupled: bool) -> Any:
    """`InferenceRequest.exec`. Blocks the calling thread until there is a response (or the first, when decoupled)."""
    _check(request)
    _warn_on_event_loop(request)
    if decoupled:
        stream = _Stream(request)
        stream.wait()
        return ResponseIterator(stream)
    return _Answer(request, blocks=True).wait()


def call_async(request: InferenceRequest, decoupled: bool) -> Any:
    """`InferenceRequest.async_exec`: the call has begun when this returns its future."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise TritonModelException(
            "async_exec is for coroutines: write `async def execute` and await it, or call exec()"
        ) from None
    _check(request)
    future = loop.create_future()
    begun: Any = _Stream(request) if decoupled else _Answer(request, blocks=False)
    future.add_done_callback(lambda done: begun.cancel() if done.cancelled() else None)
    give = _give_iterator if decoupled else _give_response
    begun.on_change(lambda: _on_loop(loop, give, future, begun))
    return future


class _Call:
    """One call under way. The runtime has it as its sink; whoever waits for it, as what to wait at."""

    def __init__(self, request: InferenceRequest, decoupled: bool, blocks: bool) -> None:
        self.blocks = blocks
        self._changed = threading.Condition()
        self._responses: deque[InferenceResponse] = deque()
        self._ended = False
        self._listener: Callable[[], None] | None = None
        self._running: list[Any] = request._running  # type: ignore[assignment]  # it is one that the model made
        self._model_name = request._model_name
        self._running.append(self)
        self._cancelled = False
        self._outgoing: OutgoingCall | None = None
        try:
            self._outgoing = request._runtime.infer(request, decoupled, self)
        except BaseException:
            with suppress(ValueError):  # the last response came before
                self._running.remove(self)
            raise
        if self._cancelled:  # meanwhile
            self.cancel()

    def __call__(self, response: InferenceResponse | None, final: bool) -> None:
        """The runtime's `ResponseSink`."""
        if final:
            self._running.remove(self)
        with self._changed:
            self._keep(response)
            self._ended = final
            listener, self._listener = self._listener, None
            self._changed.notify_all()
        if listener is not None:
            listener()

    def _keep(self, response: InferenceResponse | None) -> None:
        raise NotImplementedError

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, when something is there to be taken; at once if it is already."""
        with self._changed:
            there = self._is_there()
            if not there:
                self._listener = listener
        if there:
            listener()

    def cancel(self) -> None:
        self._cancelled = True
        if self._outgoing is not None:
            self._outgoing.cancel()

    def _is_there(self) -> bool:
        return bool(self._responses) or self._ended


class _Answer(_Call):
    """A call with one response."""

    def __init__(self, request: InferenceRequest, blocks: bool) -> None:
        super().__init__(request, False, blocks)

    def _keep(self, response: InferenceResponse | None) -> None:
        if response is not None:
            self._responses.append(response)

    def wait(self) -> InferenceResponse:
        if self._outgoing is not None:
            self._outgoing.attend(self._is_there)
        with self._changed:
            self._changed.wait_for(self._is_there)
        return self.take()

    def take(self) -> InferenceResponse:
        return self._responses[0] if self._responses else self._no_response()

    def _no_response(self) -> InferenceResponse:
        text = f"model '{self._model_name}' ended without a response to the call"
        return InferenceResponse([], TritonError(text))


class _Stream(_Call):
    """A call with any number of responses."""

    def __init__(self, request: InferenceRequest) -> None:
        super().__init__(request, True, False)

    def _keep(self, response: InferenceResponse | None) -> None:
        # An end that no response comes with is an empty response to the model, as in Triton.
        self._responses.append(InferenceResponse() if response is None else response)

    def wait(self) -> None:
        """Until `take` has something to give."""
        with self._changed:
            self._changed.wait_for(self._is_there)

    def take(self) -> tuple[InferenceResponse | None, bool]:
        """(the next response or None for none, whether it was the last)."""
        with self._changed:
            response = self._responses.popleft() if self._responses else None
            last = self._ended and not self._responses
        if response is not None and not last and self._outgoing is not None:
            self._outgoing.taken(1)
        return response, last


class ResponseIterator:
    """The responses of a call of a decoupled model, as they come. Iterating again, after the end, gives them once more.

    `for` blocks the calling thread, also when it is the one of an event loop; `async for` does not. Cancels the call
    when it is dropped before the end.
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._responses: list[InferenceResponse] = []  # so far; Triton's models may read them again
        self._finished = False
        self._next = 0

    def __iter__(self) -> ResponseIterator:
        if self._finished and self._next >= len(self._responses):
            self._next = 0
        return self

    def __next__(self) -> InferenceResponse:
        if not self._finished:
            self._stream.wait()
            self._take()
        return self._give(StopIteration)

    def __aiter__(self) -> ResponseIterator:
        return self.__iter__()

    async def __anext__(self) -> InferenceResponse:
        if not self._finished:
            await self._arrival()
            self._take()
        return self._give(StopAsyncIteration)

    def cancel(self) -> None:
        """Nobody wants more responses: the other model is told, and what it still sends comes here. Where it does not
        answer itself, the last one is an error with the code CANCELLED."""
        if not self._finished:
            self._stream.cancel()

    def __del__(self) -> None:
        if not self._finished:
            # The garbage collector may run this in the midst of anything, and a cancellation takes locks.
            _thread.start_new_thread(self._stream.cancel, ())

    def _arrival(self) -> Any:
        import asyncio

        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        self._stream.on_change(lambda: _on_loop(loop, _give_none, arrived))
        return arrived

    def _take(self) -> None:
        response, self._finished = self._stream.take()
        if response is not None:
            self._responses.append(response)

    def _give(self, end: type[Exception]) -> InferenceResponse:
        if self._next >= len(self._responses):
            raise end
        response = self._responses[self._next]
        self._next += 1
        return response


def _check(request: InferenceRequest) -> None:
    if _OUTSIDE.get():
        raise TritonModelException(
            "BLS is only supported during the 'execute' function. Neither initialize nor finalize can call other models"
        )
    if os.getpid() != _PID:  # what would answer it runs in the process that this one is a copy of
        raise TritonModelException(
            "BLS can't be used in a process that the model has forked (multiprocessing.Pool, for one): "
            "call other models from threads, or from the model's own process"
        )
    if request._running is None:
        raise TritonModelException(
            "a request that execute got can't be executed itself: make an InferenceRequest of it"
        )


def _warn_on_event_loop(request: InferenceRequest) -> None:
    """Blocking there holds up whatever else runs on the loop. Triton lets models do it, and there are some that do."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        caller = sys._getframe(3)
        text = (
            f"exec() of a call to '{request._model_name}' blocks the event loop that it is called on, and every other "
            "coroutine with it; use await request.async_exec()"
        )
        request._runtime.log(WARNING, text, os.path.basename(caller.f_code.co_filename), caller.f_lineno)


def _on_loop(loop: Any, function: Callable[..., None], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:  # the loop is closed, and nobody waits any more
        pass


def _give_response(future: Any, answer: _Answer) -> None:
    if not future.done():
        future.set_result(answer.take())


def _give_iterator(future: Any, stream: _Stream) -> None:
    if not future.done():
        future.set_result(ResponseIterator(stream))


def _give_none(future: Any) -> None:
    if not future.done():
        future.set_result(None)
