"""One region that a client has registered: a part of a segment of shared memory, or memory of a GPU."""

from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import Any, cast

from charonia.backends.python.child import cuda, devices
from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.core.tensor import Buffer, DeviceBuffer
from charonia.core.text import shown
from charonia.core.unread import UnreadBuffer
from charonia.memory.copies import Copies
from charonia.memory.segment import Segment, SegmentTooShort, as_bytes

SYSTEM = "system"
CUDA = "cuda"
_MAX_SIZE = (1 << 64) - 1


class Faults:
    """What went wrong while the inputs of one request were read: told with its answer, since the batch went on."""

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: str | None = None

    def tell(self, text: str) -> None:
        self.first = self.first or text


class Region(ABC):
    """Whoever reads or writes holds a reference: what it stands for is given back with the last one.

    Attributes:
        users: requests that have it; `leaving`: it is unregistered once there are none. `Regions` keeps both.
    """

    kind: str

    def __init__(self, name: str, byte_size: int) -> None:
        self.name = name
        self.byte_size = byte_size
        self.users = 0
        self.leaving = False

    def check(self, offset: int, byte_size: int) -> None:
        """Raises InvalidArgumentError: these bytes are not all in the region."""
        name = shown(self.name)
        if not 0 <= offset < self.byte_size:
            raise InvalidArgumentError(
                f"Invalid offset for shared memory region: '{name}' has {self.byte_size} bytes, got offset {offset}"
            )
        if byte_size < 0:
            raise InvalidArgumentError(
                f"Invalid offset + byte size for shared memory region: '{name}', byte size {byte_size} is negative"
            )
        if byte_size > _MAX_SIZE - offset:
            raise InvalidArgumentError(
                f"Integer overflow detected: byte_size ({byte_size}) + offset ({offset}) exceeds maximum value "
                f"({_MAX_SIZE}) for region '{name}'"
            )
        if offset + byte_size > self.byte_size:
            raise InvalidArgumentError(
                f"Invalid offset + byte size for shared memory region: '{name}' has {self.byte_size} bytes, got offset "
                f"{offset} and byte size {byte_size}"
            )

    @abstractmethod
    def input(self, offset: int, nbytes: int, faults: Faults, copies: Copies) -> Buffer:
        """The bytes there, checked before, as an input; what goes wrong when they are read is told to `faults`. Where
        they are copied, `copies` gives the memory."""

    @abstractmethod
    def write(self, offset: int, buffer: Buffer) -> None:
        """Copy an output there, checked before.

        Raises:
            CharoniaError: the memory is not there any more.
        """


class SystemRegion(Region):
    """
    Attributes:
        key: as the client wrote it.
        offset: where in the segment the region starts; every other offset counts from there.
    """

    kind = SYSTEM

    def __init__(self, name: str, key: str, offset: int, byte_size: int, segment: Segment) -> None:
        super().__init__(name, byte_size)
        self.key = key
        self.offset = offset
        self._segment = segment

    def input(self, offset: int, nbytes: int, faults: Faults, copies: Copies) -> Buffer:
        return UnreadBuffer(partial(self._read, offset, faults), nbytes, copies.array)

    def write(self, offset: int, buffer: Buffer) -> None:
        try:
            self._segment.write(self.offset + offset, as_bytes(buffer.host()))
        except SegmentTooShort as short:
            raise InvalidArgumentError(self._shrunk(offset + buffer.nbytes, short.nbytes)) from None
        except OSError as error:
            raise UnavailableError(f"shared memory region '{shown(self.name)}' can't be written: {error}") from None

    def _read(self, offset: int, faults: Faults, target: Any) -> None:
        try:
            if self._segment.read(self.offset + offset, target) < len(target):
                faults.tell(self._shrunk(offset + len(target), self._segment.nbytes))
        except OSError as error:
            target[:] = 0
            faults.tell(f"shared memory region '{shown(self.name)}' can't be read: {error}")

    def _shrunk(self, needed: int, nbytes: int) -> str:
        return (
            f"shared memory region '{shown(self.name)}' is shorter than it was when it was registered: its segment "
            f"'{shown(self.key)}' has {nbytes} bytes, expected at least {self.offset + needed}"
        )


class CudaRegion(Region):
    """Memory of a GPU that another process has given a handle of. Models on the GPU read it where it is.

    Attributes:
        device_id: the GPU, as CUDA counts; `address`: where the memory starts there.
    """

    kind = CUDA

    def __init__(self, name: str, device_id: int, byte_size: int, raw_handle: bytes) -> None:
        """Raises DeviceError: it can't be opened here."""
        super().__init__(name, byte_size)
        self.device_id = device_id
        self._device = f"gpu:{device_id}"
        # As memory that another process lends, so that the handles of its parts are handles of the client's memory.
        handle = (self._device, b"client", 0, raw_handle, 0)
        self._memory = devices.Opened(handle, byte_size, deque(), 0)
        self.address = self._memory.address

    def input(self, offset: int, nbytes: int, faults: Faults, copies: Copies) -> Buffer:
        return devices.Local(self._device, self.address + offset, nbytes, self._memory)

    def write(self, offset: int, buffer: Buffer) -> None:
        if not buffer.nbytes:
            return
        address, holder = _source(buffer)
        try:
            cuda.copy(self.device_id, self.address + offset, address, buffer.nbytes)
            cuda.settle(self.device_id)
        except devices.DeviceError as error:
            raise UnavailableError(f"CUDA memory region '{shown(self.name)}' can't be written: {error}") from None
        finally:
            del holder


def _source(buffer: Buffer) -> tuple[int, object]:
    """(address, what keeps it alive) of memory on the host or on a device."""
    if buffer.device != devices.CPU:
        return cast("DeviceBuffer", buffer).address, buffer
    data = as_bytes(buffer.host())
    return data.__array_interface__["data"][0], data
