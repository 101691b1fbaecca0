"""How far the reader of a stream on the wire is behind."""

import threading
from collections.abc import Callable
from typing import Protocol


class Paced(Protocol):
    """Of the wire's InferCall, what a flow needs."""

    @property
    def has_room(self) -> bool: ...


class WireFlow:
    """The `core.request.Flow` of one call. The wire counts; it tells when there is room again, and when the call is
    cancelled, which makes room too.
    """

    __slots__ = ("_call", "_listeners", "_lock")

    def __init__(self, call: Paced) -> None:
        self._call = call
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def has_room(self) -> bool:
        return self._call.has_room

    def on_room(self, listener: Callable[[], None]) -> None:
        with self._lock:  # what `told` comes for after this look finds the listener
            waits = not self._call.has_room
            if waits:
                self._listeners.append(listener)
        if not waits:
            listener()

    def told(self) -> None:
        """The wire has news of the call."""
        if not self._call.has_room:
            return
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
