"""The tensor datatypes of KServe v2 and their forms in config files, in bytes and in numpy."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

BYTES = "BYTES"


@dataclass(frozen=True, slots=True)
class Datatype:
    """`name` as on the wire (`FP32`), `config_name` as in config.pbtxt (`TYPE_FP32`), `number` in the proto enum.

    `item_size_bytes` is 0 for BYTES, whose elements have no fixed size.
    """

    name: str
    config_name: str
    number: int
    item_size_bytes: int
    numpy: np.dtype[np.generic]


_ROWS = (
    ("BOOL", "TYPE_BOOL", 1, 1, np.dtype(np.bool_)),
    ("UINT8", "TYPE_UINT8", 2, 1, np.dtype(np.uint8)),
    ("UINT16", "TYPE_UINT16", 3, 2, np.dtype(np.uint16)),
    ("UINT32", "TYPE_UINT32", 4, 4, np.dtype(np.uint32)),
    ("UINT64", "TYPE_UINT64", 5, 8, np.dtype(np.uint64)),
    ("INT8", "TYPE_INT8", 6, 1, np.dtype(np.int8)),
    ("INT16", "TYPE_INT16", 7, 2, np.dtype(np.int16)),
    ("INT32", "TYPE_INT32", 8, 4, np.dtype(np.int32)),
    ("INT64", "TYPE_INT64", 9, 8, np.dtype(np.int64)),
    ("FP16", "TYPE_FP16", 10, 2, np.dtype(np.float16)),
    ("FP32", "TYPE_FP32", 11, 4, np.dtype(np.float32)),
    ("FP64", "TYPE_FP64", 12, 8, np.dtype(np.float64)),
    ("BYTES", "TYPE_STRING", 13, 0, np.dtype(np.object_)),
    ("BF16", "TYPE_BF16", 14, 2, np.dtype(ml_dtypes.bfloat16)),
)

DATATYPES: dict[str, Datatype] = {row[0]: Datatype(*row) for row in _ROWS}
BY_NUMBER: dict[int, Datatype] = {datatype.number: datatype for datatype in DATATYPES.values()}
_BY_NUMPY: dict[np.dtype[np.generic], str] = {datatype.numpy: datatype.name for datatype in DATATYPES.values()}


def datatype_of_numpy(dtype: np.dtype[np.generic]) -> str | None:
    """The wire name for a numpy dtype, in native byte order; text and bytes dtypes are BYTES; None if there is none."""
    if dtype.kind in "SUO":
        return BYTES
    return _BY_NUMPY.get(dtype)
