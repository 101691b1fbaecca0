"""Memory on a device, handed from process to process without a copy.

What lies on a device is known by an object with the attributes of the server's `DeviceBuffer`: `device` ("gpu:0"),
`nbytes`, `address`, `host()` and `handle()`. Whoever holds it keeps the memory alive. A *handle* is plain values by
which another process opens the memory:

    (device, process, address, data, offset)

`process` is a name of the process that made it, where the memory is simply at `address`. Elsewhere the device's driver
opens `data`, and the memory starts `offset` bytes into it. The side that sends a handle holds the memory until the
other side has said that it needs it no longer (`arena.Arena.keep`), as with blocks of shared memory. Opening can wait:
who only passes a handle on never opens it.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import Any, Protocol
from weakref import WeakValueDictionary

from .errors import TritonModelException

CPU = "cpu"
PROCESS = os.urandom(16)  # not its number, which another process may get after it
_opening = threading.Lock()
# By identity: memory of other processes that is open here, and memory of this one that others have handles of.
_mapped: WeakValueDictionary[int, Opened] = WeakValueDictionary()
_given: WeakValueDictionary[int, Local] = WeakValueDictionary()


class DeviceError(TritonModelException):
    """The device's driver refuses something."""


class Driver(Protocol):
    """What is known of one kind of device: a module. Everything may raise DeviceError.

    `index` is the device's number. Memory of the same process has the address that the device gave it.
    """

    def export(self, index: int, address: int) -> tuple[Any, int]:
        """What another process opens this memory by, and where in that the address is."""

    def open_memory(self, index: int, data: Any) -> int:
        """The address here of what `export` gave in another process. Each `open_memory` needs a `close_memory`."""

    def close_memory(self, index: int, address: int) -> None: ...

    def download(self, index: int, address: int, nbytes: int) -> Any:
        """A copy in host memory."""

    def settle(self, index: int) -> None:
        """Wait until the work that this process has given to the device is done."""


_MODULES = {"gpu": "cuda", "fake": "fake_device"}
# By DLPack's numbers: CUDA, and "extension", which no framework knows.
_KIND_OF_TYPE = {2: "gpu", 12: "fake"}
_TYPE_OF_KIND = {kind: number for number, kind in _KIND_OF_TYPE.items()}


def driver_of(device: str) -> tuple[Driver, int]:
    """The driver of a device, and the device's number with it. Raises DeviceError: nothing is known of such devices."""
    kind, _, index = device.partition(":")
    if kind not in _MODULES:
        raise DeviceError(f"device '{device}' is not known; known are {', '.join(_MODULES)}")
    driver: Any = import_module("." + _MODULES[kind], __package__)
    return driver, int(index or 0)


def name_of(dlpack_type: int, index: int) -> str | None:
    """The name of a device that DLPack knows by these numbers; None where it can't be used here."""
    kind = _KIND_OF_TYPE.get(dlpack_type)
    return None if kind is None else f"{kind}:{index}"


def dlpack_device(device: str) -> tuple[int, int]:
    """DLPack's numbers for a device."""
    kind, _, index = device.partition(":")
    return _TYPE_OF_KIND[kind], int(index or 0)


class Local:
    """Memory of this process. No work may be pending on it.

    Args:
        holder: whatever keeps the memory alive.
    """

    __slots__ = ("__weakref__", "_holder", "address", "device", "nbytes")
    owned = True

    def __init__(self, device: str, address: int, nbytes: int, holder: Any) -> None:
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self._holder = holder

    def host(self) -> Any:
        return _download(self.device, self.address, self.nbytes)

    def handle(self) -> Any:
        """None where the device can't give the memory to other processes."""
        for opened in list(_mapped.values()):
            handle = opened.handle_within(self.device, self.address, self.nbytes)
            if handle is not None:
                return handle
        driver, index = driver_of(self.device)
        try:
            data, offset = driver.export(index, self.address)
        except DeviceError:
            return None
        _given[id(self)] = self
        return self.device, PROCESS, self.address, data, offset


class Opened:
    """Memory by its handle; when the last who holds this has gone, `key` is appended to `released`."""

    __slots__ = ("__weakref__", "_address", "_base", "_handle", "_key", "_own", "_released", "nbytes")
    owned = True

    def __init__(self, handle: Any, nbytes: int, released: Any, key: int) -> None:
        device, process, address, _, _ = handle
        self.nbytes = nbytes
        self._handle = handle
        # Own memory that comes back is held here: the process that it went through may end at any time.
        self._own = _given_at(device, address, nbytes) if process == PROCESS else None
        self._address: int | None = None if self._own is None else address
        self._base: int | None = None  # of what was opened
        self._released = released
        self._key = key

    @property
    def device(self) -> str:
        return str(self._handle[0])

    @property
    def address(self) -> int:
        """Raises DeviceError: it can't be opened here, for instance because its process has ended."""
        if self._address is None:
            with _opening:
                if self._address is None:
                    self._address = self._open()
        return self._address

    def host(self) -> Any:
        return _download(self.device, self.address, self.nbytes)

    def handle(self) -> Any:
        return self._handle

    def _open(self) -> int:
        device, process, _, data, offset = self._handle
        if process == PROCESS:
            raise DeviceError(f"memory on {device} has gone: nobody holds it any more")
        driver, index = driver_of(device)
        self._base = driver.open_memory(index, data)
        _mapped[id(self)] = self
        return int(self._base + offset)

    def handle_within(self, device: str, address: int, nbytes: int) -> Any:
        """The handle of a part of this memory by its address here; None if it is no part of it."""
        own_device, process, first, data, offset = self._handle
        start = address - (self._address or 0)
        if device != own_device or start < 0 or start + nbytes > self.nbytes:
            return None
        return device, process, first + start, data, offset + start

    def __del__(self) -> None:
        try:
            _mapped.pop(id(self), None)  # first: another may come to lie at the same address at once
            if self._base is not None and not sys.is_finalizing():  # the end of the process frees it as well
                driver, index = driver_of(self.device)
                driver.close_memory(index, self._base)
        finally:
            self._released.append(self._key)


def _given_at(device: str, address: int, nbytes: int) -> Local | None:
    for memory in list(_given.values()):
        if memory.device == device and memory.address <= address and address + nbytes <= memory.address + memory.nbytes:
            return memory
    return None


def _download(device: str, address: int, nbytes: int) -> Any:
    if not nbytes:
        return b""
    driver, index = driver_of(device)
    return driver.download(index, address, nbytes)
