"""Joining the inputs of a batch into one tensor each, and cutting the outputs back into one tensor for each request.

Rows are always the first dimension. Joined inputs are new memory; cut outputs are views of the batch's output.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from charonia.core.datatypes import BYTES
from charonia.core.errors import BackendError
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, HostBuffer, Tensor, encode_bytes

# From here on copying without the GIL and into memory that stays mapped is worth two more calls (1 µs). Below it
# `bytes.join` is the fastest way: 0.8 µs for 32 inputs of 64 bytes, where `numpy.concatenate` takes 18 µs.
_STAGED_FROM_BYTES = 256 * 1024


class Staging:
    """Memory for joined inputs that is used again for the next batch: one for each input of one instance.

    A joined tensor is valid until the next `join` of the same name: whoever runs the batch must not keep views of it.
    """

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory: dict[str, Array] = {}

    def join(self, requests: Sequence[InferRequest], name: str, rows: int) -> Tensor:
        """Input `name` of all `requests` as one tensor of `rows` rows.

        Every request has the input, with equal shapes but for the first dimension: the scheduler sees to it.
        """
        first = requests[0].inputs[name]
        buffers = [request.inputs[name].buffer for request in requests]
        nbytes = sum([buffer.nbytes for buffer in buffers])
        shape = (rows, *first.shape[1:])
        if nbytes < _STAGED_FROM_BYTES:
            joined: Any = b"".join([host_bytes(buffer.host()) for buffer in buffers])
        else:
            joined = self._staged(name, [host_bytes(buffer.host()) for buffer in buffers], nbytes)
        return Tensor(name, first.datatype, shape, HostBuffer(joined, nbytes, owned=False))

    def _staged(self, name: str, hosts: Sequence[Any], nbytes: int) -> Array:
        memory = self._memory.get(name)
        if memory is None or memory.nbytes < nbytes:
            memory = self._memory[name] = np.empty(nbytes, np.uint8)
        views = [np.frombuffer(host, np.uint8) for host in hosts]
        return np.concatenate(views, out=memory[:nbytes])


def host_bytes(host: Any) -> Any:
    """`host` in a form whose buffer protocol everyone reads: numpy has none for its extension types (bfloat16)."""
    if isinstance(host, np.ndarray) and host.dtype.num >= _FIRST_USER_DTYPE:
        return host.view(np.uint16 if host.itemsize == 2 else np.uint8)
    return host


_FIRST_USER_DTYPE = 256


def whole(name: str, datatype: str, array: Array) -> Tensor:
    """The output of a batch of one request: `array`'s own memory, lent."""
    if datatype == BYTES:
        return _encoded(name, array.shape, array)
    return Tensor(name, datatype, array.shape, HostBuffer(host_bytes(array), array.nbytes, owned=True))


def split(name: str, datatype: str, array: Array, rows: Sequence[int], total: int) -> list[Tensor]:
    """`array` cut along its first dimension: one tensor of `rows[i]` rows for request i, views of `array`'s memory.

    Args:
        array: C-contiguous; its memory is not written to any more.
        total: the sum of `rows`.

    Raises:
        BackendError: the first dimension of `array` is not `total`.
    """
    shape = array.shape
    if not shape or shape[0] != total:
        raise BackendError(
            f"output '{name}' has shape {list(shape)} for a batch of {total} rows: its first dimension must be {total}"
        )
    rest = shape[1:]
    if datatype == BYTES:
        return _split_strings(name, array, rows)
    nbytes = array.nbytes
    row_bytes = nbytes // total
    flat: Any = array.reshape(-1).view(np.uint8)
    data = memoryview(flat)
    if total == len(rows):
        one = (1, *rest)
        if row_bytes == 0:
            return [Tensor(name, datatype, one, HostBuffer(b"", 0, owned=True)) for _ in rows]
        return [
            Tensor(name, datatype, one, HostBuffer(data[at : at + row_bytes], row_bytes, owned=True))
            for at in range(0, nbytes, row_bytes)
        ]
    tensors, at = [], 0
    for count in rows:
        end = at + count * row_bytes
        tensors.append(Tensor(name, datatype, (count, *rest), HostBuffer(data[at:end], end - at, owned=True)))
        at = end
    return tensors


def _split_strings(name: str, array: Array, rows: Sequence[int]) -> list[Tensor]:
    tensors, at = [], 0
    for count in rows:
        part = array[at : at + count]
        tensors.append(_encoded(name, part.shape, part))
        at += count
    return tensors


def _encoded(name: str, shape: tuple[int, ...], array: Array) -> Tensor:
    data = encode_bytes(array.ravel().tolist())
    return Tensor(name, BYTES, shape, HostBuffer(data, len(data), owned=True))
