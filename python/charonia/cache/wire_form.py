"""A cached response as bytes, for a store outside this process: a length, a JSON head, then the tensors' bytes."""

import json
import struct
from collections.abc import Mapping
from math import prod
from typing import Any

from charonia.cache.response import CachedResponse
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import NO_PARAMETERS
from charonia.core.tensor import HostBuffer, Tensor, decode_bytes

_LENGTH = struct.Struct("<I")
_LARGEST = 2**63 - 1
"""Of elements and of dimensions, as everywhere."""


def encoded(response: CachedResponse) -> bytes:
    head = {
        "outputs": [[each.name, each.datatype, each.shape, each.buffer.nbytes] for each in response.outputs],
        "parameters": dict(response.parameters),
    }
    raw = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(raw)), raw, *(each.buffer.host() for each in response.outputs)))


def decoded(data: bytes) -> CachedResponse | None:
    """None for what no server has put there: a store outside may hold anything, and clients get what is in it."""
    try:
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        head = json.loads(data[_LENGTH.size : end])
        outputs = []
        for name, datatype, shape, nbytes in head["outputs"]:
            outputs.append(_tensor(str(name), datatype, tuple(shape), data[end : end + nbytes], nbytes))
            end += nbytes
        if end != len(data):
            return None
        return CachedResponse(outputs, _parameters(head["parameters"]))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidArgumentError):
        return None


def _tensor(name: str, datatype: str, shape: tuple[Any, ...], raw: bytes, nbytes: int) -> Tensor:
    if type(nbytes) is not int or len(raw) != nbytes or any(type(dim) is not int or dim < 0 for dim in shape):
        raise ValueError("no tensor")
    if prod(shape) > _LARGEST or max(shape, default=0) > _LARGEST:
        raise ValueError("no shape")
    if datatype == BYTES:
        decode_bytes(raw, shape)
    elif prod(shape) * DATATYPES[datatype].numpy.itemsize != nbytes:
        raise ValueError("shape and size differ")
    name.encode()
    return Tensor(name, datatype, shape, HostBuffer(raw, nbytes, owned=True))


def _parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in given.items():
        if not isinstance(value, bool | int | float | str):
            raise ValueError("no parameter")
        if isinstance(value, int) and not -_LARGEST - 1 <= value <= 2 * _LARGEST + 1:
            raise ValueError("no number of 64 bits")
        f"{name}{value}".encode()  # halves of surrogate pairs have no form on the wire
    return dict(given) or NO_PARAMETERS
