"""Time, as everything below the front end sees it: nanoseconds of one monotonic clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """`now_ns` counts like the wire's arrival stamps (CLOCK_MONOTONIC); tests drive their own."""

    def now_ns(self) -> int: ...


class MonotonicClock:
    """The real clock."""

    __slots__ = ()
    now_ns = staticmethod(time.monotonic_ns)
