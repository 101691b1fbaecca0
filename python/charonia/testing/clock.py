"""A clock that stands still until it is told to move."""


class ManualClock:
    """See `core.clock.Clock`."""

    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        return self._now_ns

    def advance(self, *, us: int = 0, ms: int = 0, s: int = 0) -> None:
        """Move time forward."""
        self._now_ns += us * 1000 + ms * 1_000_000 + s * 1_000_000_000
