"""The elements of a tensor as the text that a trace has of them: separated by commas."""

from typing import Any

import numpy as np

from charonia.core.datatypes import BYTES
from charonia.core.tensor import Tensor


def text_of(tensor: Tensor) -> str:
    """Numbers in their shortest form, booleans as 0 and 1, strings in quotes."""
    array = tensor.numpy().ravel()
    if tensor.datatype == BYTES:
        return ",".join(f'"{element.decode(errors="backslashreplace")}"' for element in array)
    if array.dtype.kind in "biu":
        return ",".join(map(str, array.astype(np.uint8).tolist() if array.dtype.kind == "b" else array.tolist()))
    return ",".join(map(_number, array))


def shape_of(tensor: Tensor) -> str:
    return ",".join(map(str, tensor.shape))


def _number(value: Any) -> str:
    text = str(value)
    return text[:-2] if text.endswith(".0") else text
