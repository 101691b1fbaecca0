"""How the tensors of a batch are laid out in a frame: by column, so that most costs come once a batch.

Requests in a row (or responses) that have the same tensor names and datatypes form a *group*: `(count, columns)`. A
column holds one tensor of each of them, one after another:

    (name, datatype, shapes, sizes, where, offset)

`shapes` is one tuple when all are equal, else a list; `sizes` one number of bytes or a list; `where` says in which
memory the column starts at `offset`. Small columns travel inside the frame, large ones through shared memory. What lies
on a device stays there: `offset` is a list of (key, handle) then, one for each tensor, see `devices`.
"""

from __future__ import annotations

from math import prod
from typing import Any, Sequence

import numpy as np

from .arena import Arena
from .datatypes import TYPE_OF_NAME

IN_FRAME = 0
IN_WRITER = 1  # in the shared memory of the side that sends the frame
IN_READER = 2  # in the shared memory of the side that receives it: a tensor that goes back unchanged
ON_DEVICE = 3

# Copies through the kernel cost less than placing and freeing a block up to about this size.
IN_FRAME_BYTES = 16 * 1024
_ALIGNMENT = 16
_PADDING = bytes(_ALIGNMENT)


class Packer:
    """Collects the columns of one frame. `parts` is its payload; `placed` the blocks it used, for undoing."""

    __slots__ = ("_arena", "_length", "parts", "placed")

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._length = 0
        self.parts: list[Any] = []
        self.placed: list[int] = []

    def column(self, name: str, datatype: str, shapes: list[Any], buffers: list[Any], sizes: list[int]) -> Any:
        """Lay out one column. Raises OSError when shared memory is short."""
        count = len(shapes)
        same_shape = shapes.count(shapes[0]) == count
        same_size = sizes.count(sizes[0]) == count
        total = sizes[0] * count if same_size else sum(sizes)
        where, offset = self._put(buffers, sizes, total)
        return (name, datatype, shapes[0] if same_shape else shapes, sizes[0] if same_size else sizes, where, offset)

    def device_column(self, name: str, datatype: str, shapes: list[Any], memories: list[Any]) -> Any:
        """A column of memory on devices, which is kept until the other side needs it no longer. None where it can't be
        given to another process."""
        handles = [memory.handle() for memory in memories]
        if None in handles:
            return None
        keys = [self._arena.keep(memory) for memory in memories]
        self.placed += keys
        sizes = [memory.nbytes for memory in memories]
        return (name, datatype, shapes, sizes, ON_DEVICE, list(zip(keys, handles)))

    def _put(self, buffers: list[Any], sizes: list[int], total: int) -> tuple[int, int]:
        if total > IN_FRAME_BYTES:
            offset = self._arena.place(buffers, sizes, total)
            self.placed.append(offset)
            return IN_WRITER, offset
        return self._put_in_frame(buffers, total)

    def _put_in_frame(self, buffers: list[Any], total: int) -> tuple[int, int]:
        offset = self._length
        self.parts += buffers
        padding = -total % _ALIGNMENT
        if padding:
            self.parts.append(_PADDING[:padding])
        self._length += total + padding
        return IN_FRAME, offset

    def undo(self) -> None:
        """Free the blocks again: the frame will not be sent."""
        for offset in self.placed:
            self._arena.free(offset)
        self.placed.clear()


def shapes_of(column: Any, count: int) -> Sequence[Any]:
    """The shape of each tensor of a column."""
    shapes = column[2]
    return [shapes] * count if type(shapes) is tuple else shapes


def total_bytes(column: Any, count: int) -> int:
    sizes = column[3]
    return sizes * count if type(sizes) is int else sum(sizes)


def spans(sizes: Any, count: int, start: int) -> list[tuple[int, int]]:
    """(start, end) of each tensor of a column that starts at `start`."""
    if type(sizes) is int:
        return [(start + index * sizes, start + (index + 1) * sizes) for index in range(count)]
    found = []
    for size in sizes:
        found.append((start, start + size))
        start += size
    return found


def arrays(column: Any, count: int, memory: Any, start: int) -> list[Any]:
    """A numpy view for each tensor of a column of fixed-size elements; the column starts at `start` in `memory`."""
    _, datatype, shapes, sizes, _, _ = column
    dtype = TYPE_OF_NAME[datatype]
    if type(shapes) is tuple and sizes and shapes:
        # Walking over the first axis of one large array makes the views inside numpy: three times faster.
        return list(np.ndarray((count, *shapes), dtype, memory, start))
    found = []
    for shape in shapes_of(column, count):
        size = prod(shape) * dtype.itemsize
        found.append(np.ndarray(shape, dtype, memory, start) if size else np.empty(shape, dtype))
        start += size
    return found
