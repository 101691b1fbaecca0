"""Requests without a front end, and the channel that keeps their replies."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Tensor


class KeptReplies:
    """A ReplyChannel that keeps what it is sent, outputs copied."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []

    def send(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            reply.outputs = [tensor.to_owned() for tensor in reply.outputs]
            self.replies.append(reply)

    def of(self, request: InferRequest) -> Reply:
        """The only reply to `request`."""
        (reply,) = [reply for reply in self.replies if reply.request is request]
        return reply

    def error_of(self, request: InferRequest) -> str:
        """The message of the error that `request` got."""
        error = self.of(request).error
        assert error is not None, "the request succeeded"
        return str(error)


def make_request(
    channel: KeptReplies, model: str = "m", *, rows: int = 1, shape_key: object = 1, **options: Any
) -> InferRequest:
    """A request of `rows` rows, as a scheduler sees it; `options` go to InferRequest."""
    inputs = options.pop("inputs", None)
    if inputs is None:
        inputs = {"INPUT0": Tensor.from_numpy("INPUT0", np.zeros((rows, 1), np.float32), owned=True)}
    request = InferRequest(model, -1, inputs, channel, options.pop("arrival_ns", 0), **options)
    request.batch_size = rows
    request.shape_key = shape_key
    return request
