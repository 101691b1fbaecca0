"""DLPack, both ways: the exchange of tensors with PyTorch, JAX, CuPy and others without copies.

numpy's own support is newer than 3.8's numpy and knows no bfloat16, so capsules are made and read here by ctypes.
Imported only when a model uses DLPack.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from . import devices
from .datatypes import BF16, TYPE_OF_NAME, name_of_type
from .errors import TritonModelException

CPU = 1
_HOST_DEVICES = (CPU, 3, 11, 13)  # CPU, CUDA pinned, ROCm pinned, CUDA managed
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_CODE_OF_KIND = {"i": _INT, "u": _UINT, "f": _FLOAT, "b": _BOOL}
_KIND_OF_CODE = {_INT: "i", _UINT: "u", _FLOAT: "f", _BOOL: "b"}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _ManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ManagedTensor))
_ManagedTensor._fields_ = [("dl_tensor", _Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _Deleter)]

_api = ctypes.pythonapi
_CapsuleEnd = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _CapsuleEnd]
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.restype = ctypes.c_int
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

# The same two entry points for a bare address: a capsule that is being destroyed must not be touched as an object.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

_FRESH, _USED = b"dltensor", b"used_dltensor"

# What keeps exported memory alive, by address of its managed tensor: C code holds the only other reference.
_exported: dict[int, Any] = {}


@_Deleter  # type: ignore[untyped-decorator]
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_CapsuleEnd  # type: ignore[untyped-decorator]
def _end_capsule(capsule: int) -> None:
    """A capsule that nobody has taken deletes its tensor."""
    if _is_valid(capsule, _FRESH):
        _exported.pop(_get_pointer(capsule, _FRESH), None)


def export(array: Any, datatype: str, owner: Any = None) -> Any:
    """A fresh capsule over the memory of a contiguous array. BF16 arrays are their 16 bits, or ml_dtypes arrays.

    Args:
        owner: held as long as the capsule, or what is made of it: models count the references to their tensors.
    """
    address = array.__array_interface__["data"][0] if datatype != BF16 else array.view(np.uint16).ctypes.data
    return export_memory(address, (CPU, 0), array.shape, array.dtype, datatype, (array, owner))


def export_memory(
    address: int, device: tuple[int, int], dims: tuple[int, ...], dtype: Any, datatype: str, owner: Any
) -> Any:
    """A fresh capsule over memory anywhere, with DLPack's numbers for the device. `owner` keeps the memory alive."""
    shape = (ctypes.c_int64 * max(len(dims), 1))(*dims)
    managed = _ManagedTensor()
    tensor = managed.dl_tensor
    tensor.data = address
    tensor.device = _Device(*device)
    tensor.ndim = len(dims)
    code = _BFLOAT if datatype == BF16 else _CODE_OF_KIND[dtype.kind]
    tensor.dtype = _DataType(code, 8 * dtype.itemsize, 1)
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _delete
    key = ctypes.addressof(managed)
    _exported[key] = (managed, shape, owner)
    return _api.PyCapsule_New(key, _FRESH, _end_capsule)


def take(name: str, source: Any) -> tuple[str, Any]:
    """(datatype, array) over the memory of a capsule, or of an object that gives one; (datatype, (shape, memory)) where
    the memory is on a device. Work on it is complete then.

    Raises:
        TritonModelException: not DLPack, used up, or of a datatype or on a device that can't be used here.
    """
    if hasattr(source, "__dlpack__"):
        _check_device(name, *source.__dlpack_device__())
        source = source.__dlpack__()
    if type(source).__name__ != "PyCapsule" or not _api.PyCapsule_IsValid(source, _FRESH):
        raise TritonModelException(
            f"tensor '{name}': from_dlpack needs a DLPack capsule that is not used yet, or an object with __dlpack__, "
            f"got {type(source).__name__}"
        )
    managed = _ManagedTensor.from_address(_api.PyCapsule_GetPointer(source, _FRESH))
    tensor = managed.dl_tensor
    device = _check_device(name, tensor.device.device_type, tensor.device.device_id)
    datatype = _datatype(name, tensor.dtype)
    dtype = TYPE_OF_NAME[datatype]
    if device == devices.CPU:
        _api.PyCapsule_SetName(source, _USED)
        return datatype, _over(managed, dtype)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if not _is_contiguous(shape, tensor):
        raise TritonModelException(
            f"tensor '{name}' on {device} is not contiguous: only tensors in C order can be used"
        )
    driver, index = devices.driver_of(device)
    driver.settle(index)
    _api.PyCapsule_SetName(source, _USED)
    nbytes = prod(shape) * dtype.itemsize
    address = (tensor.data or 0) + tensor.byte_offset
    return datatype, (shape, devices.Local(device, address, nbytes, _Holder(managed)))


def _is_contiguous(shape: tuple[int, ...], tensor: Any) -> bool:
    if not tensor.strides:
        return True
    expected = 1
    for axis in reversed(range(len(shape))):
        if shape[axis] != 1 and tensor.strides[axis] != expected:
            return not prod(shape)
        expected *= shape[axis]
    return True


class _Holder:
    """Owns a taken tensor and deletes it when the last who uses its memory has gone. `interface`: for numpy."""

    def __init__(self, managed: Any, interface: dict[str, Any] | None = None) -> None:
        self._managed = managed
        if interface is not None:
            self.__array_interface__ = interface

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(ctypes.byref(self._managed))


def _over(managed: Any, dtype: Any) -> Any:
    tensor = managed.dl_tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[axis] * dtype.itemsize for axis in range(tensor.ndim))
    empty = not prod(shape)
    interface = {
        "data": ((tensor.data or 0) + tensor.byte_offset, False),
        "shape": (0,) if empty else shape,
        "strides": None if empty else strides,
        "typestr": dtype.str,
        "version": 3,
    }
    holder = _Holder(managed, interface)
    return np.empty(shape, dtype) if empty else np.asarray(holder)


def _check_device(name: str, device_type: int, index: int) -> str:
    """The name of the device: "cpu" for all memory that the host can read."""
    if device_type in _HOST_DEVICES:
        return devices.CPU
    found = devices.name_of(device_type, index)
    if found is None:
        raise TritonModelException(
            f"tensor '{name}' lies on a device of DLPack type {device_type}, which is not supported; move it to host "
            "memory before from_dlpack"
        )
    return found


def _datatype(name: str, dtype: Any) -> str:
    if dtype.lanes == 1 and dtype.code == _BFLOAT and dtype.bits == 16:
        return BF16
    kind = _KIND_OF_CODE.get(dtype.code)
    found = None
    if dtype.lanes == 1 and kind is not None:
        try:
            found = name_of_type(np.dtype(f"{kind}{dtype.bits // 8}"))
        except TypeError:
            pass
    if found is None:
        raise TritonModelException(
            f"tensor '{name}' has DLPack datatype code {dtype.code}, {dtype.bits} bits, {dtype.lanes} lanes, "
            "which no Triton datatype stands for"
        )
    return found
