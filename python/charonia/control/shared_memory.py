"""Regions of shared memory that clients register: which there are, and the orders to make and forget them."""

from collections.abc import Sequence

from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.core.text import shown
from charonia.memory.region import CUDA, SYSTEM, CudaRegion, SystemRegion
from charonia.memory.regions import DISABLED, Regions


class SharedMemory:
    """Both kinds of regions. Everyone may ask for the state; the rest needs `--allow-client-shm`."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions

    def system(self, name: str = "") -> Sequence[SystemRegion]:
        """All regions in the order of their names, or the one of this name. Raises NotFoundError: it is none."""
        return self._regions.system(name)

    def cuda(self, name: str = "") -> Sequence[CudaRegion]:
        """As `system`."""
        return self._regions.cuda(name)

    def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Raises as `Regions.register_system`, and UnsupportedError: it is not allowed."""
        self._check(name, SYSTEM)
        self._regions.register_system(name, key, offset, byte_size)

    def register_cuda(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        """Raises as `Regions.register_cuda`, and UnsupportedError: it is not allowed. May wait for the GPU's driver."""
        self._check(name, CUDA)
        self._regions.register_cuda(name, raw_handle, device_id, byte_size)

    def unregister(self, kind: str, name: str = "") -> None:
        """Forget a region, or all of the kind. One that requests have goes with the last of them; an unknown one is no
        error. Raises UnsupportedError: it is not allowed."""
        self.check_allowed()
        self._regions.unregister(kind, name)

    def check_allowed(self) -> None:
        """Raises UnsupportedError: clients may not use shared memory."""
        if not self._regions.allowed:
            raise UnsupportedError(DISABLED)

    def _check(self, name: str, kind: str) -> None:
        self.check_allowed()
        if not name:
            raise InvalidArgumentError(
                "failed to register shared memory region: invalid args: 'region name' is necessary to register "
                f"{kind} shared memory region"
            )
        try:
            name.encode()
        except UnicodeError:
            raise InvalidArgumentError(f"the region name {shown(ascii(name))} is not Unicode text") from None
