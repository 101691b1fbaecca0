"""What is kept of an answer: copies of its tensors that nobody can write to."""

from collections.abc import Mapping, Sequence

from charonia.core.request import NO_PARAMETERS, Parameter, Reply
from charonia.core.tensor import Tensor

# What Python needs beside the bytes of tensors, measured with CPython 3.11 to 3.13: the entry with its key and its
# place in the order of use, and each tensor with its buffer, shape and bytes object.
_ENTRY_BYTES = 400
_TENSOR_BYTES = 320
_PARAMETER_BYTES = 100


class CachedResponse:
    """One answer, given out any number of times. Its tensors are over `bytes`, so who gets them can't change them.

    Attributes:
        nbytes: memory that it takes, all overhead included.
    """

    __slots__ = ("nbytes", "outputs", "parameters")

    def __init__(self, outputs: Sequence[Tensor], parameters: Mapping[str, Parameter]) -> None:
        self.outputs = tuple(outputs)
        self.parameters = parameters
        self.nbytes = _nbytes(self.outputs, parameters)


def kept_of(reply: Reply) -> CachedResponse | None:
    """A copy of what `reply` says. None where it can't be kept: an error, one of several, memory of a device."""
    if reply.error is not None or not (reply.final and reply.has_response):
        return None
    if any(tensor.buffer.device != "cpu" for tensor in reply.outputs):
        return None
    return CachedResponse([tensor.copied() for tensor in reply.outputs], dict(reply.parameters) or NO_PARAMETERS)


def _nbytes(outputs: Sequence[Tensor], parameters: Mapping[str, Parameter]) -> int:
    tensors = sum(_TENSOR_BYTES + tensor.buffer.nbytes + len(tensor.name) + 8 * len(tensor.shape) for tensor in outputs)
    told = sum(
        _PARAMETER_BYTES + len(name) + (len(value) if isinstance(value, str) else 0)
        for name, value in parameters.items()
    )
    return _ENTRY_BYTES + tensors + told
