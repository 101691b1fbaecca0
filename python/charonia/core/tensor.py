"""A tensor is a name, a datatype, a shape and a buffer; numpy is one way to look at it.

BYTES tensors travel serialised: each element is a 4-byte little-endian length and that many bytes.
"""

import struct
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from charonia.core.datatypes import BYTES, DATATYPES, datatype_of_numpy
from charonia.core.errors import InvalidArgumentError

Array = NDArray[Any]


class Buffer(Protocol):
    """Bytes somewhere: on the host or on a device, C-contiguous.

    `host()` gives something with the Python buffer protocol; for device memory that is a copy. Who holds a
    Buffer keeps its memory alive; `owned` says that nobody writes to it any more, so it may be lent without a copy.
    Where `device` is not "cpu" it is a `DeviceBuffer`.
    """

    @property
    def device(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def owned(self) -> bool: ...
    def host(self) -> Any: ...


class DeviceBuffer(Buffer, Protocol):
    """Memory on a device ("gpu:0"), always `owned`. No work is pending on it: whoever has it may read it at once.

    A backend that can't use it takes `host()`, which is one copy; who only passes it on copies nothing.
    """

    @property
    def address(self) -> int:
        """Where it starts, as the device counts."""

    def handle(self) -> Any:
        """What `backends.python.child.devices.Local` gives: plain values by which another process opens it, None
        where that is not possible. Whoever sends it holds this Buffer until the other needs the memory no longer."""


class HostBuffer:
    """Host memory behind any C-contiguous object with the buffer protocol (numpy array, bytes, memoryview)."""

    __slots__ = ("_data", "nbytes", "owned")
    device = "cpu"

    def __init__(self, data: Any, nbytes: int, *, owned: bool) -> None:
        self._data = data
        self.nbytes = nbytes
        self.owned = owned

    def host(self) -> Any:
        return self._data


class Tensor:
    """One named tensor. `shape` includes the batch dimension where the model batches. Treat it as read-only."""

    __slots__ = ("buffer", "datatype", "name", "shape")

    def __init__(self, name: str, datatype: str, shape: tuple[int, ...], buffer: Buffer) -> None:
        self.name = name
        self.datatype = datatype
        self.shape = shape
        self.buffer = buffer

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.datatype}, {list(self.shape)}, {self.buffer.nbytes} bytes)"

    def numpy(self) -> Array:
        """A view for fixed-size datatypes (read-only where the memory is), an object array of `bytes` for BYTES.

        Raises:
            InvalidArgumentError: BYTES whose lengths do not add up.
        """
        host = self.buffer.host()
        if self.datatype == BYTES:
            return decode_bytes(host, self.shape)
        if type(host) is np.ndarray and host.dtype == DATATYPES[self.datatype].numpy:
            return host.reshape(self.shape)
        return np.frombuffer(host, DATATYPES[self.datatype].numpy).reshape(self.shape)

    def to_owned(self) -> "Tensor":
        """Itself, or a copy if somebody may still write to its memory."""
        return self if self.buffer.owned else self.copied()

    def copied(self) -> "Tensor":
        """A copy in host memory of its own."""
        copy = _raw_bytes(self.buffer.host())
        return Tensor(self.name, self.datatype, self.shape, HostBuffer(copy, len(copy), owned=True))

    @classmethod
    def from_numpy(cls, name: str, array: Array, datatype: str | None = None, *, owned: bool = False) -> "Tensor":
        """A tensor over `array`'s memory (made contiguous, BYTES serialised: then the new memory is owned).

        Args:
            datatype: the wire name; derived from the dtype when None.
            owned: nobody will write to `array` any more.

        Raises:
            InvalidArgumentError: a dtype that has no datatype, or that is not `datatype`.
        """
        found = datatype_of_numpy(array.dtype)
        if found is None or (datatype is not None and found != datatype):
            wanted = f", expected {datatype}" if datatype else ""
            raise InvalidArgumentError(f"tensor '{name}' has numpy dtype {array.dtype}{wanted}")
        if found == BYTES:
            data = encode_bytes(array.ravel().tolist())
            return cls(name, BYTES, array.shape, HostBuffer(data, len(data), owned=True))
        if not array.flags.c_contiguous:
            array, owned = np.ascontiguousarray(array), True
        return cls(name, found, array.shape, HostBuffer(array, array.nbytes, owned=owned))


def _raw_bytes(host: Any) -> bytes:
    # Not by memoryview: it has no form for bfloat16, and no cast for arrays with a dimension of 0.
    return host.tobytes() if isinstance(host, np.ndarray) else bytes(memoryview(host))


def encode_bytes(elements: Iterable[bytes | str | Any]) -> bytes:
    """Serialise BYTES elements; text is encoded as UTF-8, other objects by `str` (as tritonclient does)."""
    parts: list[bytes] = []
    for element in elements:
        raw = element if type(element) is bytes else _raw(element)
        parts.append(struct.pack("<I", len(raw)))
        parts.append(raw)
    return b"".join(parts)


def _raw(element: object) -> bytes:
    return bytes(element) if isinstance(element, bytes | bytearray | memoryview) else str(element).encode()


def split_bytes(data: Any) -> list[bytes]:
    """The elements of a serialised BYTES tensor.

    Raises:
        InvalidArgumentError: a length that runs past the end.
    """
    raw = bytes(data)
    elements: list[bytes] = []
    at, end = 0, len(raw)
    while at < end:
        if at + 4 > end:
            raise InvalidArgumentError(f"incomplete string length indicator: 4 bytes expected, {end - at} left")
        start = at + 4
        at = start + int.from_bytes(raw[at:start], "little")
        if at > end:
            raise InvalidArgumentError(f"incomplete string data: {at - start} bytes announced, {end - start} left")
        elements.append(raw[start:at])
    return elements


def decode_bytes(data: Any, shape: Sequence[int]) -> Array:
    """An object array of `bytes` of the given shape.

    Raises:
        InvalidArgumentError: lengths or count do not match the shape.
    """
    elements = split_bytes(data)
    if len(elements) != prod(shape):
        raise InvalidArgumentError(f"expected {prod(shape)} string elements, got {len(elements)}")
    array = np.empty(len(elements), np.object_)
    array[:] = elements
    return array.reshape(tuple(shape))
