"""Outputs of another datatype than configured: those whose values all fit are converted, with a warning each."""

import threading

import numpy as np

from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.log import Log
from charonia.core.tensor import Tensor

_NO_NUMBERS = ("BOOL", BYTES)


def loses_nothing(datatype: str, wanted: str) -> bool:
    """Whether every value of one numeric datatype is one of the other (FP16 → FP32, UINT8 → INT16)."""
    if datatype in _NO_NUMBERS or wanted in _NO_NUMBERS or datatype not in DATATYPES or wanted not in DATATYPES:
        return False
    given, taken = DATATYPES[datatype].numpy, DATATYPES[wanted].numpy
    if given.kind in "iu" and given.itemsize == 8 and wanted == "FP64":
        return False  # numpy calls this safe, yet FP64 has 53 bits for the 64 of these integers
    return np.can_cast(given, taken, "safe")


def widened(tensor: Tensor, wanted: str) -> Tensor:
    """The same values in the datatype `wanted`, in memory of their own."""
    return Tensor.from_numpy(tensor.name, tensor.numpy().astype(DATATYPES[wanted].numpy), owned=True)


class WideningNotes:
    """Tells the log about each output of a loaded model once, whichever instance meets it first."""

    def __init__(self, model: str, log: Log) -> None:
        self._model = model
        self._log = log
        self._lock = threading.Lock()
        self._told: set[str] = set()

    def tell(self, output: str, datatype: str, wanted: str) -> None:
        with self._lock:
            if output in self._told:
                return
            self._told.add(output)
        self._log.warning(
            f"model '{self._model}' returns output '{output}' with datatype {datatype}, its configuration says "
            f"{wanted}: it is converted each time; return {wanted}, or change data_type in the configuration"
        )
