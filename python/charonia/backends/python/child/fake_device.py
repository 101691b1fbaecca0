"""A device that is none, for tests where no device is: its memory is files, which any process can open by their path.

Host code must not look at it but by `download`, which counts; code that "runs on the device" uses `view`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .devices import DeviceError

downloads = 0  # copies to the host that this process has made

_allocated: WeakValueDictionary[int, Allocation] = WeakValueDictionary()
_opened: dict[int, Any] = {}  # mappings of other processes' memory, by their address


class Allocation:
    """Device memory, gone with this object. Other processes can't open it any more then."""

    def __init__(self, nbytes: int) -> None:
        size = max(nbytes, 1)
        self._fd, self.path = _file()
        os.ftruncate(self._fd, size)
        self._map = mmap.mmap(self._fd, size)
        self.nbytes = nbytes
        self.address = _address(self._map)
        self.inode = os.fstat(self._fd).st_ino
        _allocated[self.address] = self

    def __del__(self) -> None:
        os.close(self._fd)
        if not self.path.startswith("/proc"):
            os.unlink(self.path)


def _file() -> tuple[int, str]:
    """A new file and a path of it that other processes can open."""
    if hasattr(os, "memfd_create"):  # nothing is left behind, however this process ends
        fd = os.memfd_create("fake device")
        return fd, f"/proc/{os.getpid()}/fd/{fd}"
    return tempfile.mkstemp(prefix="charonia-fake-device-")


def upload(array: Any) -> Allocation:
    """A copy of a numpy array on the device."""
    made = Allocation(array.nbytes)
    view(made.address, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)
    return made


def view(address: int, nbytes: int) -> Any:
    """The bytes there, for code that runs on the device; valid while somebody holds the memory."""
    memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.frombuffer(memory, np.uint8) if nbytes else np.empty(0, np.uint8)


def export(index: int, address: int) -> tuple[Any, int]:
    for base, made in list(_allocated.items()):
        if base <= address < base + max(made.nbytes, 1):
            return (made.path, made.inode), address - base
    raise DeviceError(f"address {address} is not in memory of fake:{index}")


def open_memory(index: int, data: Any) -> int:
    path, inode = data
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError as error:
        raise DeviceError(f"memory of fake:{index} can't be opened: {error}") from None
    try:
        found = os.fstat(fd)
        if found.st_ino != inode:
            raise DeviceError(f"memory of fake:{index} can't be opened: it has gone")
        mapping = mmap.mmap(fd, found.st_size)
    finally:
        os.close(fd)
    address = _address(mapping)
    _opened[address] = mapping
    return address


def close_memory(index: int, address: int) -> None:
    del _opened[address]


def download(index: int, address: int, nbytes: int) -> bytes:
    global downloads
    downloads += 1
    return ctypes.string_at(address, nbytes)


def settle(index: int) -> None:
    """Nothing is ever pending."""


def _address(mapping: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))
