"""What is kept of an answer: copies of its tensors that nobody can write to."""

from collections.abc import Mapping, Sequence

from charonia.core.request import NO_PARAMETERS, Parameter, Reply
from charonia.core.shelf import KeptAnswer, Shelf
from charonia.core.tensor import Tensor

# What Python needs beside the bytes of tensors, measured with CPython 3.11 to 3.13: the entry with its key and its
# place in the order of use, and each tensor with its buffer, shape and bytes object.
_ENTRY_BYTES = 400
_TENSOR_BYTES = 320
_PARAMETER_BYTES = 100
# What the wire needs for an answer that it gives by itself, and for each tensor of it; shorter ones are copied.
_KEPT_BYTES = 500
_KEPT_TENSOR_BYTES = 200
_COPIED_BYTES = 8 << 10


class CachedResponse:
    """One answer, given out any number of times. Its tensors are over `bytes`, so who gets them can't change them.

    Attributes:
        shelf, kept, offers: of the front end: the shelf where it lies, its places there, and how often it was offered.
        nbytes: memory that it takes, all overhead included.
    """

    __slots__ = ("kept", "nbytes", "offers", "outputs", "parameters", "shelf")

    def __init__(self, outputs: Sequence[Tensor], parameters: Mapping[str, Parameter]) -> None:
        self.outputs = tuple(outputs)
        self.parameters = parameters
        self.shelf: Shelf | None = None
        self.kept: list[KeptAnswer] = []
        self.offers = 0
        self.nbytes = _nbytes(self.outputs, parameters)

    @property
    def place_nbytes(self) -> int:
        """What each place in the front end takes: it copies short tensors."""
        outputs = [tensor.buffer.nbytes for tensor in self.outputs]
        return _KEPT_BYTES + sum(_KEPT_TENSOR_BYTES + (nbytes if nbytes <= _COPIED_BYTES else 0) for nbytes in outputs)

    def take_used(self) -> bool:
        """Whether the front end gave it since this was asked last."""
        used = [kept.take_used() for kept in self.kept]  # of all of them, so not until the first
        return any(used)


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
