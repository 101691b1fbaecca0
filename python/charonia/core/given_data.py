"""Tensor data that no client has sent: zeros, or a file of the model's folder. For warm-up, states and padding."""

import os
from collections.abc import Sequence
from math import prod
from pathlib import Path

from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import InvalidArgumentError
from charonia.core.files import read_regular
from charonia.core.tensor import HostBuffer, Tensor, split_bytes

_EMPTY_STRING_BYTES = 4


def zero_data(who: str, datatype: str, dims: Sequence[int]) -> bytes:
    """Zeros, or empty strings.

    Args:
        who: what the data is for, as a message begins.

    Raises:
        InvalidArgumentError: dims that fit no memory.
    """
    size = nbytes_of(datatype, prod(dims))
    try:
        if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise MemoryError  # the system may promise more than it has
        return bytes(size)
    except (MemoryError, OverflowError):
        message = f"{who} has dims {list(dims)}: these are {size} bytes, more than there is memory for"
        raise InvalidArgumentError(f"{message}; write smaller dims") from None


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros, or empty strings, in the place of a tensor that fits the memory as well."""
    data = bytes(nbytes_of(tensor.datatype, prod(tensor.shape)))
    return Tensor(tensor.name, tensor.datatype, tensor.shape, HostBuffer(data, len(data), owned=True))


def nbytes_of(datatype: str, elements: int) -> int:
    """How many bytes so many elements have, empty ones for BYTES."""
    return elements * (_EMPTY_STRING_BYTES if datatype == BYTES else DATATYPES[datatype].item_size_bytes)


def file_data(who: str, folder: Path, name: str, datatype: str, dims: Sequence[int]) -> bytes:
    """The beginning of the file `name` of `folder`: the bytes that the dims need; of strings it has just as many.

    Args:
        who: what the data is for, as a message begins.

    Raises:
        InvalidArgumentError: the file is missing, can't be read, is too short, or has other strings than it should.
    """
    path = folder / name
    try:
        data = read_regular(path)
    except FileNotFoundError:
        raise InvalidArgumentError(
            f"{who} reads its data from '{path}', and there is no such file: its name is relative to the folder "
            f"'{folder.name}' of the model"
        ) from None
    except OSError as error:
        raise InvalidArgumentError(f"{who} reads its data from '{path}': {error.strerror}") from error
    elements = prod(dims)
    if datatype == BYTES:
        found = _count_strings(who, path, data)
        if found != elements:
            raise InvalidArgumentError(f"{who} needs {elements} strings, '{path}' has {found}")
        return data
    expected = nbytes_of(datatype, elements)
    if len(data) < expected:
        raise InvalidArgumentError(f"{who} needs {expected} bytes, '{path}' has {len(data)}")
    return data[:expected]


def _count_strings(who: str, path: Path, data: bytes) -> int:
    try:
        return len(split_bytes(data))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{who} reads strings from '{path}': {error}") from error
