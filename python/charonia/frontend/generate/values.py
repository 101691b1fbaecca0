"""JSON values of a generate request as tensors, by the model's configuration.

A generate request has no shapes and no datatypes: the configuration has. A value is one element or a list of them; one
that is nested as deep as the input has dimensions also gives the shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import isinf, prod
from typing import Any

import numpy as np

from charonia.config.io import InputSpec
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import InvalidArgumentError
from charonia.core.tensor import Array, HostBuffer, Tensor, encode_bytes
from charonia.core.text import shown
from charonia.frontend.control.body import MAX_DEPTH, kind_of


class Members(list[tuple[str, Any]]):
    """A JSON object as it was written: every member, in order, also those that are there twice."""


class Token(float):
    """NaN, Infinity or -Infinity where the client wrote that, and no number that is too large."""


# What an element has to be, and the words that clients look for when it is not.
_BOOLEAN = (frozenset({bool, int}), "attempt to access JSON non-boolean as boolean")
_SIGNED = (frozenset({int}), "attempt to access JSON non-signed-integer as signed-integer")
_UNSIGNED = (frozenset({int}), "attempt to access JSON non-unsigned-integer as unsigned-integer")
_NUMBER = (frozenset({int, float, Token}), "attempt to access JSON non-number as double")
_STRING = (frozenset({str}), "attempt to access JSON non-string as string")


@dataclass(frozen=True, slots=True)
class Values:
    """The elements of a value in order; `shape` that of its nesting, () for one element, None where lists of different
    lengths stand side by side."""

    elements: Sequence[Any]
    shape: tuple[int, ...] | None
    depth: int


def tensor_of(value: Any, spec: InputSpec, model: str, batched: bool) -> Tensor:
    """The input `spec` of `model` with the value that stands in the request.

    Args:
        batched: the model has a batch dimension.

    Raises:
        InvalidArgumentError: elements of a wrong type or range, or so many that they fit no shape of the input.
    """
    where = f"input '{shown(spec.name)}' of model '{model}'"
    values = _values(value, where)
    dims = (-1, *spec.dims) if batched and not spec.is_shape_tensor else spec.dims
    shape = _shape(values, dims, where)
    if shape is None:
        raise InvalidArgumentError(
            f"The schema can not convert input '{shown(spec.name)}' to tensor with proper shape for model '{model}': "
            f"expected [{','.join(map(str, dims))}], got {len(values.elements)} elements"
        )
    if spec.datatype == BYTES:
        data = _text(values.elements, where)
        return Tensor(spec.name, BYTES, shape, HostBuffer(data, len(data), owned=True))
    return Tensor.from_numpy(spec.name, _numbers(values.elements, spec.datatype, where).reshape(shape), owned=True)


def _values(value: Any, where: str) -> Values:
    if type(value) is not list:
        return Values([value], (), 0)
    elements, lengths = value, [{len(value)}]
    while elements and type(elements[0]) is list:
        if len(lengths) == MAX_DEPTH:
            raise InvalidArgumentError(f"{where}: JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})")
        flat = next((each for each in elements if type(each) is not list), None)
        if flat is not None:
            raise InvalidArgumentError(f"{where}: expected lists only, or no list, got {described(flat)} beside a list")
        lengths.append({len(each) for each in elements})
        elements = list(chain.from_iterable(elements))
    regular = all(len(each) == 1 for each in lengths)
    return Values(elements, tuple(each.pop() for each in lengths) if regular else None, len(lengths))


def _shape(values: Values, dims: Sequence[int], where: str) -> tuple[int, ...] | None:
    """The shape of the nesting where that is as deep as the input; else the elements, put into the input's dims; None
    if they don't fit."""
    if values.depth == len(dims) and values.depth > 1:
        if values.shape is None:
            raise InvalidArgumentError(f"{where}: lists side by side must be of one length")
        return values.shape
    fixed = prod(dim for dim in dims if dim != -1)
    left, rest = divmod(len(values.elements), fixed or 1)
    shape = list(dims)
    for at in reversed(range(len(dims))):  # the innermost free dimension takes all that is left
        if dims[at] == -1:
            shape[at], left = left, 1
    return tuple(shape) if left == 1 and not rest else None


def _text(elements: Sequence[Any], where: str) -> bytes:
    _check_kinds(elements, *_STRING, where)
    return encode_bytes([check_text(each, where) for each in elements])


def check_text(text: str, where: str) -> bytes:
    """`text` as UTF-8. Raises InvalidArgumentError for half of a surrogate pair, which only an escape can write."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        raise InvalidArgumentError(
            f"{where}: the string has a lone surrogate (\\u{half:04x}), which is no text"
        ) from None


def _numbers(elements: Sequence[Any], datatype: str, where: str) -> Array:
    known = DATATYPES.get(datatype)
    if known is None:
        raise InvalidArgumentError(f"{where}: its configuration gives no datatype, which generate needs")
    if datatype == "BOOL":
        _check_kinds([each for each in elements if each not in (0, 1)], frozenset(), _BOOLEAN[1], where)
        return _whole(elements, 0, 1, _BOOLEAN, datatype, where).astype(np.bool_)
    if known.numpy.kind in "iu":
        limits = np.iinfo(known.numpy.str)
        kinds = _SIGNED if known.numpy.kind == "i" else _UNSIGNED
        return _whole(elements, int(limits.min), int(limits.max), kinds, datatype, where).astype(known.numpy)
    return _fractions(elements, known.numpy, datatype, where)


def _whole(
    elements: Sequence[Any], low: int, high: int, kinds: tuple[frozenset[type], str], datatype: str, where: str
) -> Array:
    _check_kinds(elements, *kinds, where)
    for extreme in (min(elements, default=low), max(elements, default=high)):
        if not low <= extreme <= high:
            raise _out_of_range(extreme, datatype, where)
    return np.array(elements, np.uint64 if high > np.iinfo(np.int64).max else np.int64)


def _fractions(elements: Sequence[Any], dtype: "np.dtype[np.generic]", datatype: str, where: str) -> Array:
    _check_kinds(elements, *_NUMBER, where)
    try:
        exact = np.array(elements, np.float64)
    except OverflowError:
        raise _out_of_range(max(elements, key=abs), datatype, where) from None
    with np.errstate(over="ignore"):
        rounded = exact.astype(dtype)
    if np.isinf(rounded).any():
        for element, value in zip(elements, rounded, strict=True):
            if isinf(value) and type(element) is not Token:
                raise _out_of_range(element, datatype, where)
    return rounded


def _check_kinds(elements: Sequence[Any], kinds: frozenset[type], words: str, where: str) -> None:
    if not kinds.issuperset(map(type, elements)):
        wrong = next(each for each in elements if type(each) not in kinds)
        raise InvalidArgumentError(f"{where}: {words}; got {described(wrong)}")


def _out_of_range(value: Any, datatype: str, where: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{where}: {shown(str(value))} is out of range for {datatype}")


def described(value: Any) -> str:
    """A JSON value in a message."""
    return "an object" if type(value) is Members else kind_of(value)
