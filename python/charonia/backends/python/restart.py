"""When a process that died may start again, and when it may no more."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """`limit` deaths within `window_s` seconds end an instance. The first restart is at once, then waits double."""

    limit: int = 5
    window_s: float = 60.0
    first_delay_s: float = 0.1
    max_delay_s: float = 10.0


class Deaths:
    """The deaths of one instance. `now_s` is a monotonic clock in seconds."""

    def __init__(self, policy: RestartPolicy, now_s: Callable[[], float]) -> None:
        self._policy = policy
        self._now_s = now_s
        self._times: deque[float] = deque()

    def record(self) -> float | None:
        """Note a death. How many seconds to wait before the restart; None when there must be none."""
        now = self._now_s()
        self._times.append(now)
        while now - self._times[0] > self._policy.window_s:
            self._times.popleft()
        count = len(self._times)
        if count >= self._policy.limit:
            return None
        if count == 1:
            return 0.0
        return min(self._policy.first_delay_s * 2.0 ** (count - 2), self._policy.max_delay_s)

    def __str__(self) -> str:
        return f"{len(self._times)} times within {self._policy.window_s:g} s"
