"""Replies on their way back to the wire. A reply that can't be sent fails alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from threading import get_ident
from typing import Protocol, cast

from charonia._wire import InferCall, Output
from charonia._wire import Reply as WireReply
from charonia.core.errors import CharoniaError, Code
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.frontend.request_log import RequestLog

Failure = tuple[InferCall, int, str, bool, bool]
"""(call, code, message, whether the request was admitted to its model before it failed, final)."""


# The first of them waits for the last one, at some 15 us each.
_GATHERED_AT_MOST = 16


class ReplySink(Protocol):
    """Of the wire, what replies need."""

    def reply_batch(self, replies: Sequence[WireReply]) -> None: ...
    def fail_batch(self, failures: Sequence[Failure]) -> None: ...


class WireChannel:
    """A ReplyChannel over the wire; a request's token is its InferCall.

    Args:
        forget: told the key of each call that gets its final reply.
        requests: told the replies while it is on.
    """

    def __init__(self, wire: ReplySink, forget: Callable[[int], object], requests: RequestLog) -> None:
        self._wire = wire
        self._forget = forget
        self._requests = requests
        self._gatherer = 0
        self._gathered: list[Reply] = []

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """What the calling thread sends inside this leaves together, where it may: answers of a cache, refusals.

        For one thread; to hand over sixteen answers costs little more than one.
        """
        self._gatherer = get_ident()
        try:
            yield
        finally:
            self._gatherer = 0
            self._flush()

    def _flush(self) -> None:
        replies, self._gathered = self._gathered, []
        if replies:
            self._send_all(replies)

    def send(self, replies: Sequence[Reply]) -> None:
        if self._gatherer and self._gatherer == get_ident():
            self._gathered.extend(replies)
            if len(self._gathered) >= _GATHERED_AT_MOST or not all(map(_may_wait, replies)):
                self._flush()
        else:
            self._send_all(replies)

    def _send_all(self, replies: Sequence[Reply]) -> None:
        if self._requests.on:
            self._requests.answered(replies)
        for reply in replies:
            if reply.final:
                self._forget(_call(reply).key)
        # In their order: an error may be one of several responses, and the end come behind it.
        for _, run in groupby(replies, _has_failed):
            self._send_run(tuple(run))

    def _send_run(self, replies: Sequence[Reply]) -> None:
        try:
            self._send(replies)
        except Exception:  # one of them can't be sent, and then no answer was
            for reply in replies:
                self._send_alone(reply)

    def _send(self, replies: Sequence[Reply]) -> None:
        """Answers only, or errors only."""
        if replies[0].error is None:
            self._wire.reply_batch([answer_of(reply) for reply in replies])
        else:
            self._wire.fail_batch([_failure(reply, reply.error, reply.final) for reply in replies if reply.error])

    def _send_alone(self, reply: Reply) -> None:
        try:
            self._send((reply,))
        except Exception as error:
            self._wire.fail_batch([_failure(reply, _Unsendable(reply.request.model_name, error), final=True)])
            if not reply.final:
                # Its model learns that nobody wants more; what still comes is ignored.
                reply.request.cancel()


class _Unsendable(CharoniaError):
    """What a model gave has no form on the wire: a parameter beyond 64 bits, text that is no Unicode, ..."""

    code = Code.INTERNAL

    def __init__(self, model: str, error: Exception) -> None:
        super().__init__(f"the answer of model '{model}' can't be sent: {type(error).__name__}: {error}")


def _may_wait(reply: Reply) -> bool:
    """Nobody writes to its outputs once `send` has returned."""
    return reply.final and all(tensor.buffer.owned for tensor in reply.outputs)


def _has_failed(reply: Reply) -> bool:
    return reply.error is not None


def _call(reply: Reply) -> InferCall:
    return cast("InferCall", reply.request.token)


def answer_of(reply: Reply) -> WireReply:
    """What the wire needs of a reply without an error."""
    request = reply.request
    outputs = [_output(tensor) for tensor in reply.outputs] if reply.has_response else None
    return (_call(reply), request.model_name, request.version, outputs, reply.parameters or None, reply.final)


def _output(tensor: Tensor) -> Output:
    buffer = tensor.buffer
    return (tensor.name, tensor.datatype, tensor.shape, buffer.host(), buffer.owned)


def _failure(reply: Reply, error: CharoniaError, final: bool) -> Failure:
    accepted = reply.request.queue_start_ns != 0  # an inference failed, not a request that was refused
    return (_call(reply), error.code, _encodable(str(error)), accepted, final)


def _encodable(text: str) -> str:
    """A model's message may hold halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode(errors="backslashreplace").decode()
