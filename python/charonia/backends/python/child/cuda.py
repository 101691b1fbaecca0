"""CUDA devices by the driver's own library: memory to and from other processes, and copies. See `devices.Driver`.

The library comes with NVIDIA's driver, so that nothing need be installed beside it; frameworks (PyTorch, ONNX Runtime)
use the same context of each device, its primary one. Memory that they took by `cudaMalloc` can be given to other
processes; memory of CUDA's pools (`cudaMallocAsync`) can't, and goes by the host.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Iterator

from .devices import DeviceError

LIBRARY = "libcuda.so.1"
_HANDLE_BYTES = 64
_ENABLE_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * _HANDLE_BYTES)]


_POINTER, _INT, _SIZE = ctypes.c_uint64, ctypes.c_int, ctypes.c_size_t
_SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuGetErrorString": [_INT, ctypes.POINTER(ctypes.c_char_p)],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(ctypes.c_void_p), _INT],
    "cuCtxPushCurrent_v2": [ctypes.c_void_p],
    "cuCtxPopCurrent_v2": [ctypes.POINTER(ctypes.c_void_p)],
    "cuCtxSynchronize": [],
    "cuMemGetAddressRange_v2": [ctypes.POINTER(_POINTER), ctypes.POINTER(_SIZE), _POINTER],
    "cuIpcGetMemHandle": [ctypes.POINTER(_IpcHandle), _POINTER],
    "cuIpcOpenMemHandle_v2": [ctypes.POINTER(_POINTER), _IpcHandle, ctypes.c_uint],
    "cuIpcCloseMemHandle": [_POINTER],
    "cuMemcpyDtoH_v2": [ctypes.c_void_p, _POINTER, _SIZE],
    "cuMemcpy": [_POINTER, _POINTER, _SIZE],
}


def export(index: int, address: int) -> tuple[Any, int]:
    base, size, handle = _POINTER(), _SIZE(), _IpcHandle()
    with _context(index) as cuda:
        cuda("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), address)
        cuda("cuIpcGetMemHandle", ctypes.byref(handle), base)
    return bytes(handle), address - base.value


def open_memory(index: int, data: Any) -> int:
    """The same memory may be opened several times: it has one address then, and CUDA counts."""
    address = _POINTER()
    with _context(index) as cuda:
        cuda("cuIpcOpenMemHandle_v2", ctypes.byref(address), _IpcHandle.from_buffer_copy(data), _ENABLE_PEER_ACCESS)
    return address.value


def close_memory(index: int, address: int) -> None:
    with _context(index) as cuda:
        cuda("cuIpcCloseMemHandle", address)


def check_available() -> None:
    """Raises DeviceError: there is no driver, or no GPU for it."""
    _driver()


def extent(index: int, address: int) -> int:
    """How many bytes the allocation has from the address on."""
    base, size = _POINTER(), _SIZE()
    with _context(index) as cuda:
        cuda("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), address)
    return base.value + size.value - address


def download(index: int, address: int, nbytes: int) -> bytearray:
    copy = bytearray(nbytes)
    with _context(index) as cuda:
        cuda("cuMemcpyDtoH_v2", ctypes.addressof(ctypes.c_char.from_buffer(copy)), address, nbytes)
    return copy


def copy(index: int, target: int, source: int, nbytes: int) -> None:
    """Between any two places, on the host or on devices. Within a device it only begins: `settle` waits for it."""
    with _context(index) as cuda:
        cuda("cuMemcpy", target, source, nbytes)


def settle(index: int) -> None:
    with _context(index) as cuda:
        cuda("cuCtxSynchronize")


class _Driver:
    """The library, with each device's primary context as far as it was used. Raises DeviceError: there is none."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
            for name, argtypes in _SIGNATURES.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = argtypes, _INT
        except (OSError, AttributeError) as error:
            raise DeviceError(f"memory of a GPU can't be used here: {error}") from None
        self("cuInit", 0)

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise DeviceError(f"{name}: {(text.value or b'error').decode()} ({code})")

    @lru_cache(maxsize=None)  # noqa: B019  # one driver, which lives as long as the process
    def context(self, index: int) -> Any:
        found = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(found), index)
        return found


_driver = lru_cache(maxsize=1)(_Driver)


@contextmanager
def _context(index: int) -> Iterator[_Driver]:
    """The driver, with the device's context current on this thread."""
    driver = _driver()
    driver("cuCtxPushCurrent_v2", driver.context(index))
    try:
        yield driver
    finally:
        driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
