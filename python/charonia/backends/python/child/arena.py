"""Shared memory for tensors: a file without a name, mapped by both processes, in which one side places blocks.

Each direction has a file of its own. The side that writes owns it: it alone places and frees blocks and makes the file
longer. The other side only looks, and reports each block that it no longer needs (a Block reports when its last
numpy view has gone). Space is reserved when the file grows, so that writing can't fail half way.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from bisect import bisect_left
from itertools import count
from typing import Any

import numpy as np

_ALIGNMENT = 64
_FIRST_BYTES = 1024 * 1024
_LARGEST_STEP_BYTES = 256 * 1024 * 1024  # a file doubles up to this step, then grows by it
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# From this size on, copying each tensor beats joining them first: numpy lets other threads run meanwhile.
LARGE_BYTES = 32 * 1024


class Mapping:
    """The shared file as it was mapped once; never changes."""

    __slots__ = ("address", "size", "view")

    def __init__(self, fd: int, size: int) -> None:
        self.view: Any = np.frombuffer(mmap.mmap(fd, size), np.uint8) if size else np.empty(0, np.uint8)
        self.address: int = self.view.__array_interface__["data"][0]
        self.size = size


class Region:
    """The whole shared file, mapped anew when it has grown. Old views keep the old mapping. Any thread may use it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self.mapping = Mapping(fd, os.fstat(fd).st_size)

    @property
    def size(self) -> int:
        return self.mapping.size

    @property
    def view(self) -> Any:
        return self.mapping.view

    def reach(self, size: int) -> Mapping:
        """A mapping of at least `size` bytes, which the file must have. Raises OSError: after `close`."""
        mapping = self.mapping
        if size > mapping.size:
            with self._lock:
                mapping = self.mapping
                if size > mapping.size:
                    mapping = self.mapping = Mapping(self._fd, max(size, os.fstat(self._fd).st_size))
        return mapping

    def lengthen(self, size: int) -> None:
        """Make the file `size` bytes long, with its space reserved, and map it. Raises OSError: no memory."""
        with self._lock:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, size)
            else:
                os.ftruncate(self._fd, size)
        self.reach(size)

    def close(self) -> None:
        """The descriptor is about to be closed, and may soon be another file's. What is mapped stays."""
        with self._lock:
            self._fd = -1


class Block:
    """Memory in a region for numpy; when the last array over it has gone, its key is appended to `released`.

    Args:
        key: by default the offset.
    """

    __slots__ = ("__array_interface__", "_key", "_mapping", "_released")

    def __init__(self, region: Region, offset: int, nbytes: int, released: Any, key: int | None = None) -> None:
        mapping = region.reach(offset + nbytes)
        self._mapping = mapping.view
        self._key = offset if key is None else key
        self._released = released
        self.__array_interface__ = {
            "data": (mapping.address + offset, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._released.append(self._key)


class Arena:
    """The owner's side: places blocks first-fit and lengthens the file when none fits. Any thread may use it.

    Args:
        reserved_bytes: at the start of the file, for other uses.
    """

    def __init__(self, fd: int, reserved_bytes: int = 0) -> None:
        self.region = Region(fd)
        self._lock = threading.Lock()
        if reserved_bytes > self.region.size:
            self.region.lengthen(reserved_bytes)
        self._free: list[tuple[int, int]] = []  # (offset, bytes), ascending, never adjacent
        self._sizes: dict[int, int] = {}
        self._kept: dict[int, Any] = {}
        self._keys = count(-1, -1)
        if self.region.size > reserved_bytes:
            self._free.append((reserved_bytes, self.region.size - reserved_bytes))

    @property
    def blocks(self) -> int:
        """How many blocks are in use, and what is kept beside them."""
        return len(self._sizes) + len(self._kept)

    @property
    def free_bytes(self) -> int:
        """Space in the file that no block takes."""
        return sum([size for _, size in list(self._free)])

    def place(self, buffers: list[Any], sizes: list[int], total: int) -> int:
        """Copy the buffers one after another into a new block; its offset. Raises OSError when memory is short.

        What has `read_into` (see `fill`) must have at least LARGE_BYTES.
        """
        offset = self.allocate(total)
        view = self.region.view
        if total < LARGE_BYTES * len(buffers):
            view[offset : offset + total] = np.frombuffer(b"".join(buffers), np.uint8)
            return offset
        at = offset
        for buffer, size in zip(buffers, sizes):
            if size:
                fill(view[at : at + size], buffer)
            at += size
        return offset

    def allocate(self, nbytes: int) -> int:
        """The offset of a new block. Raises OSError when memory is short."""
        need = -(-max(nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            return self._take(need)

    def _take(self, need: int) -> int:
        index = next((index for index, (_, size) in enumerate(self._free) if size >= need), -1)
        if index < 0:
            self._grow(need)
        offset, size = self._free[index]
        if size == need:
            del self._free[index]
        else:
            self._free[index] = (offset + need, size - need)
        self._sizes[offset] = need
        return offset

    def keep(self, thing: Any) -> int:
        """Keep something alive that the other side uses and that is no block (memory on a device); what `free` takes
        for it: a number below 0."""
        key = next(self._keys)
        self._kept[key] = thing
        return key

    def drop_kept(self) -> None:
        """The other side has gone."""
        self._kept.clear()

    def free(self, offset: int) -> None:
        """Give a block back, its neighbours join; or let go of what `keep` kept."""
        if offset < 0:
            self._kept.pop(offset, None)
            return
        with self._lock:
            self._give_back(offset)

    def _give_back(self, offset: int) -> None:
        size = self._sizes.pop(offset)
        index = bisect_left(self._free, (offset, 0))
        if index < len(self._free) and self._free[index][0] == offset + size:
            size += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == offset:
            before, before_size = self._free[index - 1]
            self._free[index - 1] = (before, before_size + size)
        else:
            self._free.insert(index, (offset, size))

    def _grow(self, need: int) -> None:
        old = self.region.size
        tail = self._free[-1][1] if self._free and sum(self._free[-1]) == old else 0
        new = max(old + need - tail, old + min(old, _LARGEST_STEP_BYTES), _FIRST_BYTES)
        if new > memory_limit_bytes():
            raise OSError(errno.ENOMEM, f"{new} bytes would be more than the memory of this machine or container")
        self.region.lengthen(-(-new // mmap.PAGESIZE) * mmap.PAGESIZE)
        offset = self._free.pop()[0] if tail else old
        self._free.append((offset, self.region.size - offset))


def fill(target: Any, buffer: Any) -> None:
    """Copy a buffer to `target`, an array of as many bytes; what has `read_into` reads itself, from wherever it is."""
    if hasattr(buffer, "read_into"):
        buffer.read_into(target)
    else:
        target[:] = np.frombuffer(buffer, np.uint8)


def memory_limit_bytes() -> int:
    """What this machine or container has at most. Reserving beyond it would not fail, but have processes killed."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER_LIMITS:
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            limit = min(limit, int(text))
    return limit
