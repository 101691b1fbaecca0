"""`pb_utils.Tensor` over memory on a device."""

from __future__ import annotations

from typing import Any

from . import devices
from .datatypes import TYPE_OF_NAME
from .errors import TritonModelException
from .tensor import Tensor


class DeviceTensor(Tensor):
    """Its elements are had by `to_dlpack`. Inputs share their memory with whoever else has them: don't change them.

    Args:
        memory: see `devices`; this tensor holds it.
    """

    __slots__ = ("_memory",)

    def __init__(self, name: str, datatype: str, shape: tuple[int, ...], memory: Any) -> None:
        self._name = name
        self._datatype = datatype
        self._shape = shape
        self._memory = memory
        self._array = self._raw = self._elements = None

    def is_cpu(self) -> bool:
        return False

    def as_numpy(self) -> Any:
        raise TritonModelException(
            f"tensor '{self._name}': Tensor is stored in GPU and cannot be converted to NumPy. It lies on "
            f"{self._memory.device}: use to_dlpack(), or PreferredMemory or FORCE_CPU_ONLY_INPUT_TENSORS to get it on "
            "the host"
        )

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the same memory, on which no work is pending."""
        from . import dlpack

        device = devices.dlpack_device(self._memory.device)
        dtype = TYPE_OF_NAME[self._datatype]
        return dlpack.export_memory(self._memory.address, device, self._shape, dtype, self._datatype, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return devices.dlpack_device(self._memory.device)
