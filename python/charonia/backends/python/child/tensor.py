"""`pb_utils.Tensor`: a named array, as models see it."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import strings
from .datatypes import BF16, BYTES, NUMBER_OF_NAME, TYPE_OF_NAME, name_of_type
from .errors import TritonModelException

_new = object.__new__


class Tensor:
    """A tensor with a name. Made by models from numpy arrays or DLPack; made by Charonia for inputs.

    Inputs may be changed in place: they are the request's own copy. BYTES inputs are decoded at the first `as_numpy`.
    """

    __slots__ = ("_array", "_datatype", "_elements", "_name", "_raw", "_shape")
    _memory: Any = None  # of a DeviceTensor

    def __init__(self, name: str, numpy_array: Any) -> None:
        if type(numpy_array) is not np.ndarray:
            if numpy_array is None:
                raise TypeError(f"tensor {name!r} needs a numpy array, got None")
            numpy_array = np.asarray(numpy_array)
        datatype = name_of_type(numpy_array.dtype)
        if datatype is None:
            numpy_array, datatype = _in_native_order(name, numpy_array)
        if not numpy_array.flags.c_contiguous:
            numpy_array = np.ascontiguousarray(numpy_array)
        if type(name) is not str or not name:
            name = _proper_name(name)
        self._name = name
        self._datatype = datatype
        self._shape: tuple[int, ...] = numpy_array.shape
        self._array: Any = numpy_array
        self._raw: Any = None
        self._elements: Any = None

    @classmethod
    def _of(cls, name: str, datatype: str, shape: tuple[int, ...], array: Any, raw: Any = None) -> Tensor:
        """A tensor that is known to be right: an array in its own type (BF16: its 16 bits), or serialised BYTES."""
        tensor = _new(cls)
        tensor._name = name
        tensor._datatype = datatype
        tensor._shape = shape
        tensor._array = array
        tensor._raw = raw
        tensor._elements = None
        return tensor

    def name(self) -> str:
        return self._name

    def shape(self) -> list[int]:
        return list(self._shape)

    def triton_dtype(self) -> int:
        """The protocol's number of the datatype (FP32 is 11)."""
        return NUMBER_OF_NAME[self._datatype]

    def is_cpu(self) -> bool:
        return True

    def as_numpy(self) -> Any:
        """The array itself, writable; an object array of `bytes` for BYTES.

        Raises:
            TritonModelException: a BF16 tensor where the package ml_dtypes is missing: numpy has no such type.
        """
        if self._datatype == BYTES:
            return self._strings()
        if self._datatype == BF16:
            return _as_bfloat16(self._name, self._array)
        return self._array

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the same memory. Raises TritonModelException for BYTES."""
        from . import dlpack

        return dlpack.export(self._numeric("to_dlpack"), self._datatype, self)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        from . import dlpack

        return (dlpack.CPU, 0)

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> Tensor:
        """A tensor over the memory of a DLPack capsule or of anything with `__dlpack__`; no copy if it is contiguous.

        Raises:
            TritonModelException: the tensor is of a datatype that Triton does not have, on a device that can't be
                used here, or not contiguous there.
        """
        from . import dlpack

        name = _proper_name(name)
        datatype, array = dlpack.take(name, tensor)
        if type(array) is tuple:
            from .device_tensor import DeviceTensor

            return DeviceTensor(name, datatype, *array)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        return Tensor._of(name, datatype, array.shape, array)

    def __repr__(self) -> str:
        return f"Tensor({self._name!r}, {self._datatype}, {list(self._shape)})"

    def _numeric(self, operation: str) -> Any:
        if self._datatype == BYTES:
            raise TritonModelException(
                f"tensor '{self._name}': DLPack has no strings, {operation} can't be used for BYTES"
            )
        return self._array

    def _strings(self) -> Any:
        if self._array is None:
            self._raw = bytes(self._raw)
            self._array = strings.decode_array(self._raw, self._shape)
            self._elements = self._array.ravel().tolist()
        return self._array

    def _serialised(self, source: Tensor | None = None) -> Any:
        """BYTES as they travel. `source`: an input whose very array this is; unchanged, its bytes are used again."""
        if self._array is None:
            return self._raw
        elements = self._array.ravel().tolist()
        known = source or self
        if known._raw is not None and _same(elements, known._elements):
            return known._raw
        return strings.encode(elements)


def _proper_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a Tensor needs a name that is a str, got {type(name).__name__}")
    if not name:
        raise TritonModelException("a Tensor needs a name that is not empty")
    return str(name)


def _in_native_order(name: str, array: Any) -> tuple[Any, str]:
    native = array.dtype.newbyteorder("=")
    datatype = name_of_type(native)
    if datatype is None:
        raise TritonModelException(
            f"tensor '{name}' has numpy dtype {array.dtype}, which no Triton datatype stands for"
        )
    return array.astype(native), datatype


def _same(elements: list[Any], others: Any) -> bool:
    try:
        return bool(elements == others)
    except Exception:  # elements with a comparison of their own
        return False


def _as_bfloat16(name: str, array: Any) -> Any:
    if array.dtype != TYPE_OF_NAME[BF16]:
        return array
    try:
        import ml_dtypes
    except ImportError:
        raise TritonModelException(
            f"tensor '{name}' is BF16, for which numpy has no type: use to_dlpack(), or install ml_dtypes"
        ) from None
    return array.view(ml_dtypes.bfloat16)
