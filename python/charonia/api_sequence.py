"""One sequence of requests to a model of an embedded server."""

import asyncio
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from charonia.api_model import NO_INPUTS, Answer, answer_within
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.engine.inproc_answers import ResponseStream, ResultFuture

if TYPE_CHECKING:
    from charonia.api_model import Model

_ID_BITS = 63
"""So that an INT64 correlation id holds it."""


class Sequence:
    """Requests that belong together: the model, or the server for it, keeps state from each to the next.

    The first request starts the sequence and the one with `end=True` ends it. A sequence that is left without such a
    one is given up: its slot is free for others, and its state forgotten. Requests are executed in their order, one at
    a time; several may be under way.

    Attributes:
        id: the correlation id.
    """

    def __init__(self, model: "Model", sequence_id: int | str | None = None) -> None:
        self._model = model
        self.id = secrets.randbits(_ID_BITS) or 1 if sequence_id is None else sequence_id
        self._lock = threading.Lock()
        self._used = False
        self._started = False
        self._ended = False
        self._left = False

    def __repr__(self) -> str:
        return f"Sequence({self.id!r} of {self._model!r})"

    def infer(
        self,
        inputs: Mapping[str, ArrayLike] = NO_INPUTS,
        /,
        *,
        end: bool = False,
        timeout_s: float | None = None,
        **more: Any,
    ) -> Answer:
        """The next request, as `Model.infer`; `more` are its other arguments.

        Args:
            end: it is the last one.

        Raises:
            InvalidArgumentError: the sequence has ended.
        """
        return answer_within(self.submit(inputs, end=end, **more), timeout_s, self._model.name)

    async def infer_async(
        self, inputs: Mapping[str, ArrayLike] = NO_INPUTS, /, *, end: bool = False, **more: Any
    ) -> Answer:
        """The next request, as `infer`, without blocking the event loop."""
        return Answer.of(await asyncio.wrap_future(self.submit(inputs, end=end, **more)))

    def submit(self, inputs: Mapping[str, ArrayLike] = NO_INPUTS, /, *, end: bool = False, **more: Any) -> ResultFuture:
        """Start the next request, as `Model.submit`. Cancelling one request ends the sequence."""
        start = self._take_turn(end)
        try:
            future = self._model.submit(inputs, sequence_id=self.id, sequence_start=start, sequence_end=end, **more)
        except BaseException:
            self._failed(start, end)
            raise
        future.add_done_callback(partial(self._done, start, end))
        return future

    def stream(
        self, inputs: Mapping[str, ArrayLike] = NO_INPUTS, /, *, end: bool = False, **more: Any
    ) -> ResponseStream[Answer]:
        """The next request, and its responses as they come, as `Model.stream`."""
        start = self._take_turn(end)
        try:
            return self._model.stream(inputs, sequence_id=self.id, sequence_start=start, sequence_end=end, **more)
        except BaseException:
            self._failed(start, end)
            raise

    def cancel(self) -> None:
        """Give the sequence up: what waits ends as cancelled, what an instance executes already is answered, and there
        is no next request.
        """
        with self._lock:
            self._ended = True
        if self._used:
            self._give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._left = True
            ended = self._ended
        if self._used and not ended:
            self._give_up()

    def _take_turn(self, end: bool) -> bool:
        """Whether the request whose turn it is starts the sequence."""
        with self._lock:
            if self._ended or self._left:
                raise InvalidArgumentError(
                    f"sequence {self.id!r} of model '{self._model.name}' has ended: make another by model.sequence()"
                )
            start = not self._started
            self._used = self._started = True
            self._ended = end
        return start

    def _done(self, start: bool, end: bool, future: ResultFuture) -> None:
        if future.cancelled() or future.exception() is not None:
            self._failed(start, end)

    def _failed(self, start: bool, end: bool) -> None:
        """A first request that failed has started nothing, and a last one has ended nothing: the next one shall."""
        with self._lock:
            self._started = self._started and not start
            self._ended = self._ended and not end
            left = self._left
        if end and left:
            self._give_up()

    def _give_up(self) -> None:
        with suppress(CharoniaError):  # the model is gone, and its sequences with it
            self._model.loaded.end_sequence(self.id)
