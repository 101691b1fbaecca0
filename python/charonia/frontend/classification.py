"""The classification extension: an output as its k largest values, each `value:index[:label]`."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from charonia.core.datatypes import BYTES
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.request import InferRequest, Reply, ReplyChannel
from charonia.core.tensor import Array, HostBuffer, Tensor, encode_bytes

# A client's request makes a string of every element it asks for; no real classifier has so many classes.
_MAX_ROW_ELEMENTS = 1_000_000

Labels = Callable[[InferRequest, str], Sequence[str]]


class ClassifyingChannel:
    """Turns the outputs that were requested as classes into BYTES on their way to `channel`.

    Args:
        counts: how many classes, by output name.
        labels_of: the labels of an output of the model that serves a request.
        batched: whether the model that serves a request batches.
    """

    def __init__(
        self,
        channel: ReplyChannel,
        counts: Mapping[str, int],
        labels_of: Labels,
        batched: Callable[[InferRequest], bool],
    ) -> None:
        self._channel = channel
        self._counts = counts
        self._labels_of = labels_of
        self._batched = batched

    def send(self, replies: Sequence[Reply]) -> None:
        self._channel.send([self._classified(reply) for reply in replies])

    def _classified(self, reply: Reply) -> Reply:
        if reply.error is not None or not reply.has_response:
            return reply
        try:
            outputs = [self._output(reply.request, tensor) for tensor in reply.outputs]
        except CharoniaError as error:
            return Reply(reply.request, error=error, final=reply.final)
        return Reply(reply.request, outputs, None, reply.parameters, reply.final)

    def _output(self, request: InferRequest, tensor: Tensor) -> Tensor:
        count = self._counts.get(tensor.name)
        if count is None:
            return tensor
        return classes(tensor, count, self._labels_of(request, tensor.name), self._batched(request))


def classes(tensor: Tensor, count: int, labels: Sequence[str], batched: bool) -> Tensor:
    """The `count` largest elements of each row (of all elements when not `batched`) as BYTES [rows,] count.

    Raises:
        InvalidArgumentError: a BYTES tensor has no order; or a row has too many elements.
    """
    if tensor.datatype == BYTES:
        raise InvalidArgumentError(
            f"class result not available for output due to unsupported type 'BYTES': output '{tensor.name}' is text, "
            "which has no largest elements"
        )
    values = tensor.numpy()
    if values.dtype.kind not in "iubf":
        values = values.astype(np.float32)  # BF16, which NumPy can't sort by itself
    rows = values.reshape(values.shape[0], prod(values.shape[1:])) if batched else values.reshape(1, -1)
    if rows.shape[1] > _MAX_ROW_ELEMENTS:
        raise InvalidArgumentError(
            f"classification output tensor too large: output '{tensor.name}' has {rows.shape[1]} elements in a row, "
            f"at most {_MAX_ROW_ELEMENTS} can be classified"
        )
    count = min(count, rows.shape[1])
    texts = [text for row in rows for text in _row(row, count, labels)]
    shape = (rows.shape[0], count) if batched else (count,)
    data = encode_bytes(texts)
    return Tensor(tensor.name, BYTES, shape, HostBuffer(data, len(data), owned=True))


def _row(row: Array, count: int, labels: Sequence[str]) -> list[str]:
    # Negating would overflow unsigned values; a stable sort of the reversed row keeps the first of equals first.
    ascending = len(row) - 1 - np.argsort(row[::-1], kind="stable")
    order = np.roll(ascending, np.count_nonzero(np.isnan(row)))[::-1][:count]  # NaN sorts last and is no class to win
    return [_text(row[index], int(index), labels) for index in order]


def _text(value: np.generic, index: int, labels: Sequence[str]) -> str:
    number = f"{float(value):f}" if value.dtype.kind not in "iub" else str(int(value))
    return f"{number}:{index}:{labels[index]}" if index < len(labels) else f"{number}:{index}"
