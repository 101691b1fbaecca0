"""Host memory that is read from where it lies only when it is needed, and straight to where it is needed."""

from collections.abc import Callable
from typing import Any

import numpy as np

Fill = Callable[[Any], None]
"""Fills the whole of a writable array of bytes. Never raises."""


class UnreadBuffer:
    """A Buffer whose bytes lie in somebody else's file. Who uses them has a copy of its own, which nobody writes to.

    Any thread may use it: two that read at the same time each have a copy, and both are right.

    Args:
        fill: reads the bytes.
    """

    __slots__ = ("_data", "_fill", "nbytes")
    device = "cpu"
    owned = True

    def __init__(self, fill: Fill, nbytes: int) -> None:
        self._fill = fill
        self._data: Any = None
        self.nbytes = nbytes

    def host(self) -> Any:
        """The bytes, the same ones each time."""
        if self._data is None:
            data = np.empty(self.nbytes, np.uint8)
            self._fill(data)
            self._data = data
        return self._data

    def read_into(self, target: Any) -> None:
        """Copy the bytes to `target`, a writable array of `nbytes` bytes."""
        if self._data is None:
            self._fill(target)
        else:
            target[:] = self._data
