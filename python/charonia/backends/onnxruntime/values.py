"""Between Charonia's tensors and the values that ONNX Runtime takes and gives."""

import ctypes
from typing import Any

import numpy as np

from charonia.core.datatypes import DATATYPES
from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.core.tensor import Array, Tensor, split_bytes

_ONNX_BFLOAT16 = 16


def text_array(tensor: Tensor) -> Array:
    """BYTES as ONNX Runtime's Python interface takes them: text, as its strings are UTF-8.

    Bytes that are not UTF-8 go in as fixed-length bytes, which pass unchanged as long as none of them is zero.

    Raises:
        InvalidArgumentError: elements that can be passed in neither form.
    """
    elements = split_bytes(tensor.buffer.host())
    array: Array
    try:
        array = np.empty(len(elements), np.object_)
        array[:] = [element.decode() for element in elements]
    except UnicodeDecodeError as error:
        if any(b"\0" in element for element in elements):
            raise InvalidArgumentError(
                f"input '{tensor.name}' has an element that is not UTF-8 and one with a zero byte: "
                "ONNX Runtime's Python interface can't take both in one tensor"
            ) from error
        array = np.array(elements, np.bytes_)
    return array.reshape(tensor.shape)


def ort_value(runtime: Any, array: Array) -> Any:
    """`array` as an OrtValue over the same memory; the way for bfloat16, which ONNX Runtime can't take from numpy."""
    if array.dtype == DATATYPES["BF16"].numpy:
        return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _ONNX_BFLOAT16)
    return runtime.OrtValue.ortvalue_from_numpy(array)


def array_of(value: Any, name: str, datatype: str) -> Array:
    """The memory of an OrtValue as an array, which keeps the value alive.

    Raises:
        BackendError: strings that are not UTF-8.
    """
    if datatype == "BF16":
        return _bfloat16_array(value)
    try:
        array: Array = value.numpy()
    except UnicodeDecodeError as error:
        raise not_text(name) from error
    return array


def not_text(name: str) -> BackendError:
    return BackendError(
        f"output '{name}' holds strings that are not UTF-8, which ONNX Runtime's Python interface can't give out"
    )


def _bfloat16_array(value: Any) -> Array:
    shape, nbytes = value.shape(), value.tensor_size_in_bytes()
    if nbytes == 0:
        return np.empty(shape, DATATYPES["BF16"].numpy)
    memory = (ctypes.c_uint8 * nbytes).from_address(value.data_ptr())
    memory.owner = value
    return np.frombuffer(memory, DATATYPES["BF16"].numpy).reshape(shape)
