"""How much of regions is copied for requests at the same time. A copy costs the client nothing: many small requests may
name the same large region, and a region may be larger than what is in it."""

import threading
import weakref
from typing import Any

import numpy as np

from charonia.core.errors import InvalidArgumentError, UnavailableError

# Smaller ones cost less than the request that they are of.
_COUNTED_FROM_BYTES = 4096


class Copies:
    """Gives the memory for copies, and counts it until it is free again. Any thread may use it.

    Args:
        limit_bytes: as much at the same time at most; None for any.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        # Entered again where memory that is given here frees other memory.
        self._lock = threading.RLock()
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def check(self, tensor: str, nbytes: int) -> None:
        """Raises InvalidArgumentError: so much is never given at once."""
        if self._limit_bytes is not None and nbytes > self._limit_bytes:
            raise InvalidArgumentError(
                f"input '{tensor}' has {nbytes} bytes in shared memory, which exceeds the maximum of "
                f"{self._limit_bytes}, half of the memory of this machine or container"
            )

    def array(self, nbytes: int) -> Any:
        """An array of so many bytes, not filled.

        Raises:
            UnavailableError: others hold too much at the moment, or the machine has no more.
        """
        counted = nbytes >= _COUNTED_FROM_BYTES
        if counted:
            self._take(nbytes)
        try:
            made = np.empty(nbytes, np.uint8)
        except MemoryError:
            if counted:
                self._give(nbytes)
            raise UnavailableError(f"there is no memory for an input of {nbytes} bytes from shared memory") from None
        if counted:
            weakref.finalize(made, self._give, nbytes).atexit = False
        return made

    def _take(self, nbytes: int) -> None:
        with self._lock:
            if self._limit_bytes is not None and self._held_bytes + nbytes > self._limit_bytes:
                raise UnavailableError(
                    f"an input of {nbytes} bytes can't be read from shared memory now: requests hold "
                    f"{self._held_bytes} bytes of such inputs, and {self._limit_bytes} is the most"
                )
            self._held_bytes += nbytes

    def _give(self, nbytes: int) -> None:
        with self._lock:
            self._held_bytes -= nbytes
