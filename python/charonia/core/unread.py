"""Host memory that is read from where it lies only when it is needed, and straight to where it is needed."""

from collections.abc import Callable
from typing import Any

import numpy as np

Allocate = Callable[[int], Any]
"""Gives an array of so many bytes. Raises UnavailableError: there is no memory."""
Fill = Callable[[Any], None]
"""Fills the whole of a writable array of bytes. Never raises."""


def _bytes(nbytes: int) -> Any:
    return np.empty(nbytes, np.uint8)


class UnreadBuffer:
    """A Buffer whose bytes lie in somebody else's file. Who uses them has a copy of its own, which nobody writes to.

    Any thread may use it: two that read at the same time each have a copy, and both are right.

    Args:
        fill: reads the bytes.
        allocate: gives the memory for them.
    """

    __slots__ = ("_allocate", "_data", "_fill", "nbytes")
    device = "cpu"
    owned = True

    def __init__(self, fill: Fill, nbytes: int, allocate: Allocate = _bytes) -> None:
        self._fill = fill
        self._allocate = allocate
        self._data: Any = None
        self.nbytes = nbytes

    def host(self) -> Any:
        """The bytes, the same ones each time. Raises UnavailableError: there is no memory for them."""
        if self._data is None:
            data = self._allocate(self.nbytes)
            self._fill(data)
            self._data = data
        return self._data

    def read_into(self, target: Any) -> None:
        """Copy the bytes to `target`, a writable array of `nbytes` bytes."""
        if self._data is None:
            self._fill(target)
        else:
            target[:] = self._data
