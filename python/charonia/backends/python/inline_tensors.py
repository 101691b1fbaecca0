"""Tensors on their way between the server and models inside it: what is copied, and what is only passed on."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from charonia.backends.joining import host_bytes
from charonia.backends.python.child.arena import fill
from charonia.backends.python.child.batch import BatchReader, OutputNames
from charonia.backends.python.child.columns import IN_FRAME_BYTES, IN_WRITER, ON_DEVICE, Packer
from charonia.backends.python.child.datatypes import BYTES, TYPE_OF_NAME
from charonia.backends.python.child.device_tensor import DeviceTensor
from charonia.backends.python.child.messages import InferenceRequest
from charonia.backends.python.child.tensor import Tensor as ModelTensor
from charonia.backends.python.encoding import facts_of, groups_of, is_on_device, requested_of
from charonia.core.request import InferRequest
from charonia.core.tensor import HostBuffer, Tensor


def read_inputs(
    requests: Sequence[InferRequest],
    keys: Sequence[Any],
    output_names: OutputNames,
    request_class: type[InferenceRequest],
    keeps_devices: bool = False,
) -> list[InferenceRequest]:
    """Requests as the model gets them. Inputs are copies that it may write to: existing models change them in place.

    Args:
        keys: by which the runtime knows each; each has `cancelled`.
        keeps_devices: inputs on a device stay there; they are no copies.
    """
    packer = _InlinePacker()
    groups = groups_of(packer, requests, keeps_devices)
    meta = (0, facts_of(requests), requested_of(requests), groups, ())
    payload = bytearray().join(packer.parts)
    made = _InlineReader(packer.memories, output_names, request_class).read(meta, payload)
    for request, key in zip(made, keys, strict=True):
        request._slot = key
    return made


class LentTensor(ModelTensor):
    """A tensor that another model answered with. It is copied when the model looks at it, which may write to it then,
    and not when it is only passed on."""

    __slots__ = ("_made", "lent")

    def __init__(self, lent: Tensor) -> None:
        self.lent: Tensor | None = lent
        self._made: Any = None
        self._name = lent.name
        self._datatype = lent.datatype
        self._shape = lent.shape
        self._raw = lent.buffer.host() if lent.datatype == BYTES else None
        self._elements = None

    def _get_array(self) -> Any:
        if self._made is None and self._datatype != BYTES and self.lent is not None:
            self._made = _copied(self.lent)
            self.lent = None
        return self._made

    def _set_array(self, array: Any) -> None:
        self._made, self.lent = array, None

    _array = property(_get_array, _set_array)


def lend(tensor: Tensor, prefers_host: bool) -> ModelTensor:
    """A tensor of a reply, for the model; its memory is kept beyond the reply. On a device it stays there, unless the
    model prefers the host."""
    if is_on_device(tensor):
        if not prefers_host:
            return DeviceTensor(tensor.name, tensor.datatype, tensor.shape, tensor.buffer)
        return ModelTensor._of(tensor.name, tensor.datatype, tensor.shape, _copied(tensor))
    if tensor.datatype == BYTES or tensor.buffer.owned:
        return LentTensor(tensor.to_owned())
    return ModelTensor._of(tensor.name, tensor.datatype, tensor.shape, _copied(tensor))


def take(tensor: ModelTensor, *, copies: bool = False) -> Tensor:
    """A model's tensor, for the server.

    Args:
        copies: the model may write to its array while the server still reads; without this the tensor is over that
            array, and not `owned`.
    """
    if type(tensor) is LentTensor and tensor.lent is not None:
        lent = tensor.lent
        return Tensor(tensor._name, lent.datatype, lent.shape, lent.buffer)
    if tensor._memory is not None:
        return Tensor(tensor._name, tensor._datatype, tensor._shape, tensor._memory)
    if tensor._datatype == BYTES:
        raw = tensor._serialised()
        return Tensor(tensor._name, BYTES, tensor._shape, HostBuffer(raw, len(raw), owned=True))
    array = tensor._array.copy() if copies else tensor._array
    buffer = HostBuffer(host_bytes(array), array.nbytes, owned=copies)
    return Tensor(tensor._name, tensor._datatype, tensor._shape, buffer)


def _copied(tensor: Tensor) -> Any:
    """A writable array of the tensor's elements, BF16 as its 16 bits."""
    array = np.empty(tensor.shape, TYPE_OF_NAME[tensor.datatype])
    if array.nbytes:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(host_bytes(tensor.buffer.host()), np.uint8)
    return array


class _InlinePacker(Packer):
    """Copies inputs into memory of their own."""

    __slots__ = ("memories",)

    def __init__(self) -> None:
        self._length = 0
        self.parts: list[Any] = []
        self.memories: list[Any] = []

    def _put(self, buffers: list[Any], sizes: list[int], total: int) -> tuple[int, int]:
        if total <= IN_FRAME_BYTES:
            return self._put_in_frame(buffers, total)
        memory = np.empty(total, np.uint8)
        at = 0
        for buffer, size in zip(buffers, sizes, strict=True):
            if size:
                fill(memory[at : at + size], buffer)
            at += size
        self.memories.append(memory)
        return IN_WRITER, len(self.memories) - 1

    def device_column(self, name: str, datatype: str, shapes: list[Any], memories: list[Any]) -> Any:
        return (name, datatype, shapes, [memory.nbytes for memory in memories], ON_DEVICE, memories)


class _InlineReader(BatchReader):
    """Reads what the packer laid out; the cancel flag is that of the key."""

    def __init__(self, memories: list[Any], output_names: OutputNames, request_class: type[InferenceRequest]) -> None:
        self.output_names = output_names
        self.request_class = request_class
        self._memories = memories

    def is_cancelled(self, key: Any) -> bool:
        return bool(key.cancelled)

    def placed(self, offset: int, nbytes: int) -> Any:
        return self._memories[offset]

    def on_device(self, entries: Any, sizes: list[int]) -> list[Any]:
        return list(entries)
