"""Frames to a model's process from threads that must not wait for it."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from charonia.backends.python.child import wire

# Tensors above 16 KiB go by shared memory, so this many bytes are thousands of frames: the process reads no more.
_LIMIT_BYTES = 64 * 1024 * 1024


class Outbox:
    """Sends at once what the socket takes and keeps the rest. Any thread may post; nothing blocks or raises.

    Args:
        overflowed: called when more is kept than a process that reads would ever leave.

    Attributes:
        stuck: called when something is kept: `flush` is to be called once the socket takes more.
    """

    def __init__(self, channel: wire.Channel, overflowed: Callable[[], None]) -> None:
        self.stuck: Callable[[], None] = _nothing
        self._channel = channel
        self._overflowed = overflowed
        self._lock = threading.Lock()
        self._kept: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._closed = False

    def post(self, kind: int, correlation: int, meta: Any, payload: Sequence[Any] = ()) -> None:
        frame = memoryview(wire.frame_bytes(kind, correlation, meta, payload))
        with self._lock:
            if self._closed:
                return
            was_stuck = bool(self._kept)
            self._kept.append(frame)
            self._kept_bytes += len(frame)
            if not was_stuck:
                self._offer()
            is_stuck, overflows = bool(self._kept), self._kept_bytes > _LIMIT_BYTES
            stuck, overflowed = self.stuck, self._overflowed
        if overflows:
            self.close()
            overflowed()
        elif is_stuck and not was_stuck:
            stuck()

    def flush(self) -> bool:
        """Send what can be sent now; whether nothing is left."""
        with self._lock:
            self._offer()
            return not self._kept

    def close(self) -> None:
        """The process has gone, or is to go: nothing is sent any more."""
        with self._lock:
            self._closed = True
            self._kept.clear()
            self._kept_bytes = 0
            # Whoever is called holds this, and with it mapped memory.
            self.stuck = self._overflowed = _nothing

    def _offer(self) -> None:
        try:
            while self._kept:
                sent = self._channel.offer(self._kept[0])
                self._kept_bytes -= sent
                if sent < len(self._kept[0]):
                    self._kept[0] = self._kept[0][sent:]
                    return
                self._kept.popleft()
        except wire.LinkClosed:
            self._closed = True
            self._kept.clear()


def _nothing() -> None:
    """Nobody is to be told."""
