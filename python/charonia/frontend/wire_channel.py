"""Replies on their way back to the wire. A reply that can't be sent fails alone."""

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from charonia._wire import InferCall, Output
from charonia._wire import Reply as WireReply
from charonia.core.errors import Code
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.frontend.request_log import RequestLog

Failure = tuple[InferCall, int, str, bool]
"""(call, code, message, whether the request was admitted to its model before it failed)."""


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

    def send(self, replies: Sequence[Reply]) -> None:
        if self._requests.on:
            self._requests.answered(replies)
        answers: list[WireReply] = []
        failures: list[Failure] = []
        for reply in replies:
            call = cast("InferCall", reply.request.token)
            if reply.final:
                self._forget(call.key)
            if reply.error is not None:
                accepted = reply.request.queue_start_ns != 0  # an inference failed, not a request that was refused
                failures.append((call, reply.error.code, _encodable(str(reply.error)), accepted))
                continue
            try:
                answers.append(_answer(call, reply))
            except Exception as error:
                failures.append(_unsendable(call, reply.request.model_name, error))
        if answers:
            self._reply(answers)
        if failures:
            self._wire.fail_batch(failures)

    def _reply(self, answers: Sequence[WireReply]) -> None:
        try:
            self._wire.reply_batch(answers)
        except Exception:
            for answer in answers:
                self._reply_alone(answer)

    def _reply_alone(self, answer: WireReply) -> None:
        """This answer, or another of its batch, can't be sent. One that is out already is ignored by the wire."""
        try:
            self._wire.reply_batch((answer,))
        except Exception as error:
            self._wire.fail_batch((_unsendable(answer[0], answer[1], error),))


def _answer(call: InferCall, reply: Reply) -> WireReply:
    request = reply.request
    outputs = [_output(tensor) for tensor in reply.outputs]
    return (call, request.model_name, request.version, outputs, reply.parameters or None, reply.final)


def _output(tensor: Tensor) -> Output:
    buffer = tensor.buffer
    return (tensor.name, tensor.datatype, tensor.shape, buffer.host(), buffer.owned)


def _unsendable(call: InferCall, model: str, error: Exception) -> Failure:
    """What a model gave has no form on the wire: a parameter beyond 64 bits, text that is no Unicode, ..."""
    message = f"the answer of model '{model}' can't be sent: {type(error).__name__}: {error}"
    return (call, Code.INTERNAL, _encodable(message), True)


def _encodable(text: str) -> str:
    """A model's message may hold halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode(errors="backslashreplace").decode()
