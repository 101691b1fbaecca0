"""The regions of one server, by name. System and CUDA regions share their names, as in Triton."""

import resource
import threading
from collections.abc import Iterable, Sequence

from charonia.backends.python.child import cuda, devices
from charonia.core.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.log import Log
from charonia.core.text import shown
from charonia.memory.copies import Copies
from charonia.memory.region import CUDA, SYSTEM, CudaRegion, Region, SystemRegion
from charonia.memory.segment import open_segment

HANDLE_BYTES = 64
"""Of a cudaIpcMemHandle_t."""

DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."

_MOST_REGIONS = 4096
_TITLES = {SYSTEM: "system", CUDA: "CUDA"}


class Regions:
    """Registers, finds and forgets regions. Any thread may use it.

    A region that requests have is forgotten when the last of them has been answered; until then it is all there.

    Args:
        log: told of regions that are forgotten later.
        allowed: whether clients may register regions; who asks for one is told so.
        copies_bytes: how much of them may be copied for requests at the same time; None for any.

    Attributes:
        copies: gives the memory for that.
    """

    def __init__(
        self, log: Log, allowed: bool = False, limit: int | None = None, copies_bytes: int | None = None
    ) -> None:
        self.copies = Copies(copies_bytes)
        self._log = log
        self.allowed = allowed
        self._limit = default_limit() if limit is None else limit
        self._lock = threading.Lock()
        self._by_name: dict[str, Region] = {}

    def register_system(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """
        Args:
            key: of the segment, as for `shm_open`; `offset`, `byte_size`: the part of it, of any alignment.

        Raises:
            AlreadyExistsError: the name is taken.
            InvalidArgumentError: the segment has no such part, or the key is not the client's to give.
            InternalError: this server can't open the segment.
            UnavailableError: there are too many regions.
        """
        self._check_new(name)
        segment = open_segment(name, key)
        nbytes = segment.nbytes
        if offset < 0 or byte_size <= 0 or offset + byte_size > nbytes:
            raise InvalidArgumentError(
                f"failed to register shared memory region '{shown(name)}': invalid args: segment '{shown(key)}' has "
                f"{nbytes} bytes, got offset {offset} and byte size {byte_size}"
            )
        self._add(SystemRegion(name, key, offset, byte_size, segment))

    def register_cuda(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        """
        Args:
            raw_handle: a cudaIpcMemHandle_t of another process.
            device_id: the GPU, as CUDA counts in this process.

        Raises:
            As `register_system`.
        """
        self._check_new(name)
        if len(raw_handle) != HANDLE_BYTES:
            raise InvalidArgumentError(
                f"failed to register shared memory region '{shown(name)}': invalid args: 'raw_handle' must be a valid "
                f"base64 encoded cudaIpcMemHandle_t of {HANDLE_BYTES} bytes, got {len(raw_handle)}"
            )
        self._add(_open_cuda(name, raw_handle, device_id, byte_size))

    def _check_new(self, name: str) -> None:
        if name in self._by_name:
            raise AlreadyExistsError(f"shared memory region '{shown(name)}' already in manager")
        if len(self._by_name) >= self._limit:
            raise UnavailableError(
                f"shared memory region '{shown(name)}' can't be registered: there are {self._limit} regions, as many "
                "as the open files of this process allow; unregister others, or raise its limit (ulimit -n)"
            )

    def _add(self, region: Region) -> None:
        with self._lock:
            self._check_new(region.name)
            self._by_name[region.name] = region

    def system(self, name: str = "") -> Sequence[SystemRegion]:
        """The regions of the system's memory in the order of their names, or the one of this name.

        Raises:
            NotFoundError: there is none.
        """
        return [each for each in self._listed(SYSTEM, name) if isinstance(each, SystemRegion)]

    def cuda(self, name: str = "") -> Sequence[CudaRegion]:
        """As `system`, of GPUs' memory."""
        return [each for each in self._listed(CUDA, name) if isinstance(each, CudaRegion)]

    def _listed(self, kind: str, name: str) -> Sequence[Region]:
        with self._lock:
            regions = dict(self._by_name)
        if not name:
            return [regions[each] for each in sorted(regions) if regions[each].kind == kind]
        region = regions.get(name)
        if region is None:
            raise NotFoundError(f"Unable to find {kind} shared memory region: '{shown(name)}'")
        if region.kind != kind:
            raise NotFoundError(
                f"Unable to find {kind} shared memory region: '{shown(name)}' is registered as {_TITLES[region.kind]} "
                f"shared memory, not {_TITLES[kind]} shared memory"
            )
        return [region]

    def unregister(self, kind: str, name: str = "") -> None:
        """Forget the region of this kind and name, or all of the kind; now, or after the last request that has it. An
        unknown one is no error."""
        with self._lock:
            for region in [self._by_name.get(name)] if name else list(self._by_name.values()):
                if region is None or region.kind != kind:
                    continue
                if region.users:
                    region.leaving = True
                    self._log.verbose(
                        f"shared memory region '{shown(region.name)}' will be unregistered after in-flight requests "
                        f"complete: {region.users} tensors of them have it"
                    )
                else:
                    del self._by_name[region.name]

    def claim(self, name: str) -> Region:
        """The region, for one tensor of a request; `release` gives it back.

        Raises:
            NotFoundError: there is none.
        """
        with self._lock:
            region = self._by_name.get(name)
            if region is None:
                why = "" if self.allowed else f". {DISABLED}"
                raise NotFoundError(f"Unable to find shared memory region: '{shown(name)}'{why}")
            region.users += 1
            return region

    def release(self, claimed: Iterable[Region]) -> None:
        """The request is answered: it reads and writes no more."""
        with self._lock:
            for region in claimed:
                region.users -= 1
                if region.leaving and not region.users and self._by_name.get(region.name) is region:
                    del self._by_name[region.name]

    def clear(self) -> None:
        """Forget everything, at the end of the server."""
        with self._lock:
            self._by_name.clear()


def default_limit() -> int:
    """A quarter of the files that this process may open: each system region holds one open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_REGIONS if files == resource.RLIM_INFINITY else max(1, min(_MOST_REGIONS, files // 4))


def _open_cuda(name: str, raw_handle: bytes, device_id: int, byte_size: int) -> CudaRegion:
    try:
        cuda.check_available()
    except devices.DeviceError as error:
        raise InvalidArgumentError(
            f"failed to register CUDA shared memory region: '{shown(name)}', GPUs not supported here: {error}"
        ) from None
    wrong = f"failed to register shared memory region '{shown(name)}': invalid args"
    if byte_size <= 0:
        raise InvalidArgumentError(f"{wrong}: byte size {byte_size}, expected at least 1")
    try:
        region = CudaRegion(name, device_id, byte_size, raw_handle)
        extent = cuda.extent(device_id, region.address)
    except devices.DeviceError as error:
        raise InvalidArgumentError(f"{wrong}: {error}") from None
    if byte_size > extent:
        raise InvalidArgumentError(f"{wrong}: the memory has {extent} bytes, got byte size {byte_size}")
    return region
