"""Which requests are traced, and how much of them: the settings that count at one time for one or all models."""

import threading
from collections.abc import Set
from dataclasses import dataclass, replace
from enum import IntFlag, StrEnum
from itertools import count


class Level(IntFlag):
    """What is traced; OFF for nothing."""

    OFF = 0
    TIMESTAMPS = 1
    TENSORS = 2


class Mode(StrEnum):
    """Where traces go: to a file in Triton's format, or to an OpenTelemetry collector."""

    TRITON = "triton"
    OPENTELEMETRY = "opentelemetry"


FIELDS = ("level", "rate", "count", "log_frequency")
"""Of TraceValues: what may be changed while the server runs."""


@dataclass(frozen=True, slots=True)
class TraceValues:
    """Attributes:
    rate: one request in so many is traced; 0 for those only that bring a context of OpenTelemetry.
    count: how many more are traced; -1 for any number.
    log_frequency: traces per file; 0 for one file.
    """

    level: Level = Level.OFF
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0


class TraceSetting:
    """Values, and the counting that goes with them. A change makes a new one; traces that were begun keep theirs.

    Args:
        specified: the fields that were given for this model (or all), and do not follow the fallback.
        fault: why nothing can be traced by it whatever comes, "" if something can.
    """

    def __init__(self, values: TraceValues, specified: Set[str] = frozenset(), fault: str = "") -> None:
        self.specified = frozenset(specified)
        self.fault = fault
        self._values = values
        self._lock = threading.Lock()
        self._count = values.count
        self._seen = count(1)
        self._open = 0
        self._retired = False

    @property
    def level(self) -> Level:
        return self._values.level

    @property
    def log_frequency(self) -> int:
        return self._values.log_frequency

    @property
    def values(self) -> TraceValues:
        """With the count that is left."""
        return replace(self._values, count=self._count)

    def sample(self, *, forced: bool = False) -> bool:
        """Whether the request that has come is traced; then `finished` is to be called.

        Args:
            forced: it brings a context of OpenTelemetry, and is traced whatever rate and count say.
        """
        rate = self._values.rate
        due = rate > 0 and next(self._seen) % rate == 0  # without the lock: this is all that most requests pay
        if not (due or forced):
            return False
        with self._lock:
            hit = due and not (self.fault or self._count == 0)
            if hit and self._count > 0:
                self._count -= 1
            taken = hit or forced
            self._open += taken
            return taken

    def retire(self) -> None:
        """Others have taken its place: nothing is sampled any more."""
        with self._lock:
            self._retired = True

    def finished(self) -> None:
        """One of its traces has been collected."""
        with self._lock:
            self._open -= 1

    @property
    def used_up(self) -> bool:
        """Whether its count is, and all traces have been collected."""
        with self._lock:
            return self._count == 0 and not self._open

    @property
    def over(self) -> bool:
        """Whether no more traces come from it."""
        with self._lock:
            return self._retired and not self._open
