"""Calls of other models, in the model's process: requests as frames out, responses in.

INFER    the correlation is the call's number; meta (description, columns, callers, freed)
         description: (model, version, id, correlation id, flags, timeout, priority, parameters, requested outputs,
         whether any number of responses may come, the number of the trace that the call belongs to (0 for none),
         whether outputs are wanted on the host); callers: the models that wait for what calls, None where it is not
         known; freed: blocks of replies that are not needed any more
TAKEN    meta (list of (number, how many responses were taken), freed)
CANCEL   no meta
REPLIES  meta: a list of (whether it is the last, failure, parameters, columns, start): None or (code, text); None or
         {…}; None for a bare end, else `columns` of one response, whose places in the frame count from `start`
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import count
from typing import Any, Callable

from . import wire
from .arena import Arena, Region
from .batch import BatchReader, OutputPacker, column_of
from .calls import CALLERS
from .columns import IN_FRAME, Packer
from .errors import TritonError, TritonModelException
from .messages import InferenceRequest
from .responding import drained
from .responses import InferenceResponse
from .runtime import ResponseSink

_REPORTED = 16  # so many small responses are reported as taken at a time


class Calls:
    """The calls that are under way. `answered` is for the thread that listens, the rest for any.

    Args:
        inputs: where the inputs of batches lie: those that a blocking call passes on stay there.
        replies: where large outputs of called models lie.
        attend: see `OutgoingCall`.

    Attributes:
        batch_thread: executes a batch now. The server's thread that waits for the batch's answer takes the blocking
            calls of this one, so that none need be woken for them.
    """

    def __init__(
        self,
        work: wire.Channel,
        events: wire.Channel,
        outputs: Arena,
        inputs: Region,
        replies: Region,
        attend: Callable[[Callable[[], bool]], None],
    ) -> None:
        self.attend = attend
        self.batch_thread: int | None = None
        self._work = work
        self._events = events
        self._outputs = outputs
        self._inputs = inputs
        self._freed: deque[int] = deque()
        self._reader = BatchReader(replies, self._freed)
        self._numbers = count(1)
        self._under_way: dict[int, _Call] = {}

    def begin(self, request: InferenceRequest, decoupled: bool, sink: ResponseSink) -> _Call:
        """Raises TritonModelException: the inputs can't be sent."""
        packer = OutputPacker(self._outputs, self._inputs) if sink.blocks else Packer(self._outputs)
        try:
            columns = [column_of(packer, (tensor,), {}) for tensor in request._inputs]
        except Exception as error:
            packer.undo()
            raise TritonModelException(
                f"the inputs of the call to model '{request._model_name}' can't be sent: "
                f"{type(error).__name__}: {error}"
            ) from None
        number = next(self._numbers) & 0xFFFFFFFF
        call = self._under_way[number] = _Call(self, number, sink)
        waits = sink.blocks and self.batch_thread == threading.get_ident()
        meta = (description_of(request, decoupled), columns, CALLERS.get(), drained(self._freed))
        try:
            (self._work if waits else self._events).send(wire.INFER, number, meta, packer.parts)
        except wire.LinkClosed:
            self._end(number, call)
        return call

    def answered(self, frame: wire.Frame) -> None:
        """A REPLIES frame has come."""
        call = self._under_way.get(frame.correlation)
        for final, failure, parameters, columns, start in frame.meta:
            response = self._response(failure, parameters, columns, frame.payload, start)
            if final:
                self._under_way.pop(frame.correlation, None)
            if call is not None:
                call.is_large = call.is_large or any(column[4] != IN_FRAME for column in columns or ())
                call.sink(response, final)
                if final:  # the two refer to each other, and the responses must go when the model drops them
                    call.sink = _nobody

    def close(self) -> None:
        """The server has gone: every call ends."""
        for number, call in list(self._under_way.items()):
            self._end(number, call)

    def taken(self, number: int, count: int) -> None:
        self._tell(wire.TAKEN, 0, ([(number, count)], drained(self._freed)))

    def cancel(self, number: int) -> None:
        if number in self._under_way:
            self._tell(wire.CANCEL, number, None)

    def _end(self, number: int, call: _Call) -> None:
        if self._under_way.pop(number, None) is not None:
            call.sink(InferenceResponse([], TritonError("the server has gone", TritonError.UNAVAILABLE)), True)

    def _tell(self, kind: int, number: int, meta: Any) -> None:
        try:
            self._events.send(kind, number, meta)
        except wire.LinkClosed:
            pass

    def _response(self, failure: Any, parameters: Any, columns: Any, payload: Any, start: int) -> Any:
        if failure is not None:
            code, text = failure
            return InferenceResponse([], TritonError(text, code))
        if columns is None:
            return None
        placed = [(*column[:5], column[5] + start) if column[4] == IN_FRAME else column for column in columns]
        response = InferenceResponse([self._reader.tensors(column, 1, payload)[0] for column in placed])
        response._parameters = parameters
        return response


def _nobody(response: Any, final: bool) -> None:
    """The call has ended."""


class _Call:
    """One call; what the API holds of it."""

    __slots__ = ("_calls", "_number", "_unreported", "is_large", "sink")

    def __init__(self, calls: Calls, number: int, sink: ResponseSink) -> None:
        self._calls = calls
        self._number = number
        self._unreported = 0
        self.is_large = False  # large responses are held back one by one
        self.sink: Callable[[Any, bool], None] = sink

    def attend(self, is_done: Callable[[], bool]) -> None:
        self._calls.attend(is_done)

    def taken(self, count: int) -> None:
        self._unreported += count
        if self._unreported >= _REPORTED or self.is_large:
            count, self._unreported = self._unreported, 0
            self._calls.taken(self._number, count)

    def cancel(self) -> None:
        self._calls.cancel(self._number)


def description_of(request: InferenceRequest, decoupled: bool) -> Any:
    """What the server is told of a call, but for its inputs."""
    return (
        request._model_name,
        request._model_version,
        request._id,
        request._correlation_id,
        request._flags,
        request._timeout_us,
        request._priority,
        request._parameters,
        tuple(request._requested),
        decoupled,
        request._trace._number if request._trace is not None else 0,
        request._prefers_host,
    )
