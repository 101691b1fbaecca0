"""Triton's datatypes and numpy's, both ways."""

from __future__ import annotations

from typing import Any

import numpy as np

BYTES = "BYTES"
BF16 = "BF16"

# Wire name, name in configurations, number in the protocol, numpy type. BF16 travels as its 16 bits.
_ROWS = (
    ("BOOL", "TYPE_BOOL", 1, np.bool_),
    ("UINT8", "TYPE_UINT8", 2, np.uint8),
    ("UINT16", "TYPE_UINT16", 3, np.uint16),
    ("UINT32", "TYPE_UINT32", 4, np.uint32),
    ("UINT64", "TYPE_UINT64", 5, np.uint64),
    ("INT8", "TYPE_INT8", 6, np.int8),
    ("INT16", "TYPE_INT16", 7, np.int16),
    ("INT32", "TYPE_INT32", 8, np.int32),
    ("INT64", "TYPE_INT64", 9, np.int64),
    ("FP16", "TYPE_FP16", 10, np.float16),
    ("FP32", "TYPE_FP32", 11, np.float32),
    ("FP64", "TYPE_FP64", 12, np.float64),
    (BYTES, "TYPE_STRING", 13, np.object_),
)

TYPE_OF_NAME: dict[str, Any] = {name: np.dtype(kind) for name, _, _, kind in _ROWS}
TYPE_OF_NAME[BF16] = np.dtype(np.uint16)
_NAME_OF_TYPE: dict[Any, str] = {np.dtype(kind): name for name, _, _, kind in _ROWS}
NUMBER_OF_NAME = {name: number for name, _, number, _ in _ROWS}
NUMBER_OF_NAME[BF16] = 14
TRITON_STRING_TO_NUMPY: dict[str, Any] = {config: kind for _, config, _, kind in _ROWS}
TRITON_STRING_TO_NUMPY["TYPE_BOOL"] = bool
_TYPE_OF_NUMBER: dict[int, Any] = {number: kind for _, _, number, kind in _ROWS}


def name_of_type(dtype: Any) -> str | None:
    """The wire name for a numpy dtype in native byte order; None if there is none."""
    name = _NAME_OF_TYPE.get(dtype)
    if name is None:
        if dtype.kind in "SU":
            return BYTES
        if dtype.name == "bfloat16":
            return BF16
    return name


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """`TYPE_FP32` → numpy.float32. KeyError for what numpy has no type for."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type: int) -> Any:
    """The protocol's number of a datatype → numpy type; None if there is none."""
    return _TYPE_OF_NUMBER.get(data_type)


def numpy_to_triton_type(data_type: Any) -> int | None:
    """A numpy type or dtype → the protocol's number; None if there is none."""
    name = name_of_type(np.dtype(data_type))
    return None if name is None else NUMBER_OF_NAME[name]
