"""What callers in the same process get of a request: a future of its one answer, or a stream of its responses."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

from charonia.core.reply_queue import ReplyQueue
from charonia.core.request import InferRequest, Parameter, Reply
from charonia.core.tensor import Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InferResult:
    """One answer: which version gave it, its outputs by name (their memory is the caller's), response parameters."""

    model_name: str
    model_version: str
    id: str
    outputs: Mapping[str, Tensor]
    parameters: Mapping[str, Parameter]

    @classmethod
    def of(cls, reply: Reply) -> Self:
        request = reply.request
        outputs = {tensor.name: tensor.to_owned() for tensor in reply.outputs}
        return cls(request.model_name, request.version, request.id, outputs, reply.parameters)


class ResultFuture(Future[InferResult]):
    """The answer to come. `cancel` takes the request out of the queue, and tells the model that is executing it."""

    def __init__(self) -> None:
        super().__init__()
        self.request: InferRequest | None = None

    def cancel(self) -> bool:
        # The future first: else the queue's refusal would settle it, and it would not count as cancelled.
        request = self.request
        cancelled = super().cancel()
        if cancelled and request is not None:
            request.cancel()
        return cancelled

    def send(self, replies: Sequence[Reply]) -> None:
        """The request's ReplyChannel."""
        for reply in replies:
            self.request = None  # the two refer to each other
            if self.done():
                return
            try:
                if reply.error is not None:
                    self.set_exception(reply.error)
                else:
                    self.set_result(InferResult.of(reply))
            except InvalidStateError:
                return  # cancelled since we looked


class ResponseStream(Generic[T]):
    """The responses to one request, as they come: iterate with `for`, or with `async for`.

    The model waits while too many responses are unread. An error of the model is raised where its response would have
    come. Who leaves early ends the request: by `cancel`, by leaving a `with` block, or by dropping the stream.
    """

    def __init__(
        self,
        request: InferRequest,
        replies: ReplyQueue,
        convert: Callable[[InferResult], T],
        timeout_s: float | None,
        leavers: "Leavers",
    ) -> None:
        self._request = request
        self._replies = replies
        self._convert = convert
        self._timeout_s = timeout_s
        self._leavers = leavers
        self._taken: deque[Reply] = deque()
        self._over = False
        self._left = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """
        Raises:
            CharoniaError: as a client would get it.
            TimeoutError: no response within `timeout_s`; the request is cancelled.
        """
        while not self._at_end():
            if not self._taken:
                self._arrived(self._replies.wait(self._timeout_s))
            elif (reply := self._taken.popleft()).has_response:
                return self._item(reply)
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Raises as `__next__`."""
        while not self._at_end():
            if not self._taken:
                self._arrived(await self._wait_async())
            elif (reply := self._taken.popleft()).has_response:
                return self._item(reply)
        raise StopAsyncIteration

    async def _wait_async(self) -> Sequence[Reply]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._replies.wait_async()
        except TimeoutError:
            return ()

    def _at_end(self) -> bool:
        return self._left or (self._over and not self._taken)

    def _arrived(self, replies: Sequence[Reply]) -> None:
        """What a wait gave: nothing after `cancel`, or when the time is over."""
        if replies:
            self._taken.extend(replies)
            self._over = replies[-1].final
        elif not self._left:
            self.cancel()
            raise TimeoutError(f"model '{self._request.model_name}' gave no response within {self._timeout_s} s")

    def _item(self, reply: Reply) -> T:
        if reply.error is not None:
            raise reply.error
        return self._convert(InferResult.of(reply))

    def cancel(self) -> None:
        """End the request: no more responses will come. May be called by any thread, also after the end."""
        self._left = True  # a reader in another thread may be taking what has come: that stays where it is
        if not self._request.settled and not self._request.cancelled:
            self._request.cancel()
        self._replies.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        if not self._request.settled:
            self._leavers.cancel(self._request, self._replies)


class Leavers:
    """Ends requests whose stream was dropped.

    The garbage collector may find that out anywhere, also in a thread that holds a lock of ours: so it only leaves the
    request here, and a thread of its own, which is there from the first such request on, cancels it.
    """

    def __init__(self) -> None:
        self._left: SimpleQueue[tuple[InferRequest, ReplyQueue] | None] = SimpleQueue()  # its `put` may be interrupted
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Called before the first stream is made."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leavers", daemon=True)
                self._thread.start()

    def cancel(self, request: InferRequest, replies: ReplyQueue) -> None:
        self._left.put((request, replies))

    def close(self) -> None:
        if self._thread is not None:
            self._left.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (left := self._left.get()) is not None:
            request, replies = left
            request.cancel()
            replies.close()
            del request, replies, left
