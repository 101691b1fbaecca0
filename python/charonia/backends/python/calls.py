"""Calls of other models that a model's process makes: its frames in, replies as frames out."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from charonia.backends.python.child import wire
from charonia.backends.python.child.arena import Arena
from charonia.backends.python.child.columns import Packer
from charonia.backends.python.child.errors import TritonError
from charonia.backends.python.encoding import callers_of, one_column
from charonia.backends.python.outbox import Outbox
from charonia.backends.python.outgoing import CallUnderWay, OutgoingCalls, call_failure, described, lost
from charonia.core.request import Caller, InferRequest, Reply
from charonia.core.tensor import Tensor

_EARLY = 64


class ProcessCalls:
    """The calls of one process that are under way.

    Args:
        replies: shared memory that this side writes, for large outputs.
        inputs: makes tensors of a frame's columns and its payload.
        open_requests: those that the process has.
        instance: what the process belongs to, see `Caller`.
        decoupled: requests may be open that its instance does not wait for.
    """

    def __init__(
        self,
        calls: OutgoingCalls,
        outbox: Outbox,
        replies: Arena,
        inputs: Callable[[Any, bytearray], list[Tensor]],
        open_requests: Callable[[], Sequence[InferRequest]],
        instance: object = None,
        decoupled: bool = False,
    ) -> None:
        self._calls = calls
        self._outbox = outbox
        self._replies = replies
        self._inputs = inputs
        self._open_requests = open_requests
        self._waiting = Caller(instance, is_sure=True)
        self._maybe_waiting = None if decoupled else Caller(instance, is_sure=False)
        self._under_way: dict[int, _ProcessCall] = {}
        # Calls come by one channel and cancellations by the other, so one may be here before its call.
        self._cancelled_early: deque[int] = deque(maxlen=_EARLY)

    def frame(self, frame: wire.Frame) -> bool:
        """Take a frame of the events channel; False when it is about something else."""
        if frame.kind == wire.INFER:
            self.begin(frame)
        elif frame.kind == wire.TAKEN:
            self._taken(*frame.meta)
        elif frame.kind == wire.CANCEL:
            self._cancel(frame.correlation)
        else:
            return False
        return True

    def close(self) -> None:
        """The process has gone: nobody wants the responses."""
        self._calls.close()
        for call in list(self._under_way.values()):
            call.cancel()
        self._under_way.clear()

    def begin(self, frame: wire.Frame, waits: bool = False) -> None:
        """Take an INFER frame. `waits`: see `OutgoingCalls.submit`."""
        number = frame.correlation
        try:
            call, request = self._made(frame, waits)
        except Exception as error:  # memory that can't be opened; the caller must not wait for ever
            text = f"the inputs of the call can't be read: {type(error).__name__}: {error}"
            self._outbox.post(wire.REPLIES, number, [(True, (TritonError.INTERNAL, text), None, None, 0)])
            return
        self._under_way[number] = call
        if number in self._cancelled_early:  # after the call can be found: `_cancel` looks in the other order
            call.cancel()
        self._calls.submit(request, waits)

    def _made(self, frame: wire.Frame, waits: bool) -> "tuple[_ProcessCall, InferRequest]":
        description, columns, callers, freed = frame.meta
        self._free(freed)
        *_, prefers_host = description
        call = _ProcessCall(self, frame.correlation, prefers_host)
        caller = self._waiting if waits else None
        if callers is None:  # in a thread of the user's it is not known for which of the open requests it works
            callers = callers_of(self._open_requests())
            caller = caller or self._maybe_waiting
        inputs = self._inputs(columns, frame.payload)
        about = described(description, inputs, callers, caller, self._open_requests)
        request = self._calls.request(about, call, call)
        call.begun(request)
        return call, request

    def _taken(self, counts: Sequence[tuple[int, int]], freed: Sequence[int]) -> None:
        self._free(freed)
        for number, count in counts:
            call = self._under_way.get(number)
            if call is not None:
                call.taken(count)

    def _cancel(self, number: int) -> None:
        self._cancelled_early.append(number)
        call = self._under_way.get(number)
        if call is not None:
            call.cancel()

    def _free(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._replies.free(offset)

    def deliver(self, number: int, replies: Sequence[Reply], prefers_host: bool) -> None:
        """Send the replies to one call to the process."""
        items, payload, start = [], [], 0
        for reply in replies:
            *item, parts = self._packed(reply, prefers_host)
            body = b"".join(parts)
            items.append((*item, start))
            payload.append(body)
            start += len(body)
        if replies[-1].final:
            self._under_way.pop(number, None)
        self._outbox.post(wire.REPLIES, number, items, payload)

    def _packed(self, reply: Reply, prefers_host: bool) -> Any:
        """(whether it is the last, failure, parameters, columns, parts of the payload), see `child/calling.py`."""
        if reply.error is not None or not (reply.has_response or reply.request.takes_stream):
            return reply.final, call_failure(reply), None, None, ()
        if not reply.has_response:
            return reply.final, None, None, None, ()
        packer = Packer(self._replies)
        try:
            columns = [one_column(packer, tensor, prefers_host) for tensor in reply.outputs]
        except Exception as error:  # also a device's: the caller must not wait for ever
            packer.undo()
            return reply.final, call_failure(lost(reply, error)), None, None, ()
        return reply.final, None, dict(reply.parameters) or None, columns, packer.parts


class _ProcessCall(CallUnderWay):
    """The ReplyChannel and the Flow of one call. `prefers_host`: outputs on a device are copied to the host."""

    def __init__(self, calls: ProcessCalls, number: int, prefers_host: bool) -> None:
        super().__init__()
        self._calls = calls
        self._number = number
        self._prefers_host = prefers_host

    def send(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            self.add(reply)
        if replies[-1].final:
            self.ended()
        self._calls.deliver(self._number, replies, self._prefers_host)
