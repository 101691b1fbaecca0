"""Time, as everything below the front end sees it: nanoseconds of one monotonic clock."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """`now_ns` counts like the wire's arrival stamps (CLOCK_MONOTONIC); tests drive their own."""

    def now_ns(self) -> int: ...


class MonotonicClock:
    """The real clock."""

    __slots__ = ()
    now_ns = staticmethod(time.monotonic_ns)


def waitable_s(timeout_s: float) -> float:
    """As long, or as long as Python can wait at once: what a client or a configuration gives may be more."""
    return min(timeout_s, threading.TIMEOUT_MAX)
