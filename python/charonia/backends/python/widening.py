"""Outputs of another datatype than configured: those whose values all fit are converted, with a warning each.

numpy's own choice of INT64 is the usual reason: the sum of an INT32 array is one.
"""

import numpy as np

from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.tensor import Array, Tensor

_NO_NUMBERS = ("BOOL", BYTES)


def loses_nothing(datatype: str, wanted: str) -> bool:
    """Whether every value of one numeric datatype is one of the other (FP16 → FP32, UINT8 → INT16)."""
    if datatype in _NO_NUMBERS or wanted in _NO_NUMBERS or datatype not in DATATYPES or wanted not in DATATYPES:
        return False
    given, taken = DATATYPES[datatype].numpy, DATATYPES[wanted].numpy
    if given.kind in "iu" and given.itemsize == 8 and wanted == "FP64":
        return False  # numpy calls this safe, yet FP64 has 53 bits for the 64 of these integers
    return np.can_cast(given, taken, "safe")


def may_convert(datatype: str, wanted: str) -> bool:
    """Whether values may fit: all of them, or those that turn out to: whole numbers, and 0 and 1 as BOOL."""
    if wanted == "BOOL":
        return datatype in DATATYPES and datatype not in _NO_NUMBERS
    return loses_nothing(datatype, wanted) or (_is_whole(datatype) and _is_whole(wanted))


def widened(tensor: Tensor, wanted: str) -> Tensor:
    """The same values in the datatype `wanted`, in memory of their own; the tensor itself where one does not fit."""
    array = tensor.numpy()
    if not loses_nothing(tensor.datatype, wanted) and not _fits(array, wanted):
        return tensor
    return Tensor.from_numpy(tensor.name, array.astype(DATATYPES[wanted].numpy), owned=True)


def _fits(array: Array, wanted: str) -> bool:
    if not array.size:
        return True
    if wanted == "BOOL":
        return bool(((array == 0) | (array == 1)).all())
    limits = np.iinfo(DATATYPES[wanted].numpy.str)
    return bool(array.min() >= limits.min and array.max() <= limits.max)


def _is_whole(datatype: str) -> bool:
    return datatype in DATATYPES and datatype not in _NO_NUMBERS and DATATYPES[datatype].numpy.kind in "iu"
