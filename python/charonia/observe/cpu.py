"""CPU and memory of the host, read when somebody asks: nothing runs between two scrapes."""

from collections.abc import Callable
from typing import NamedTuple

import psutil

from charonia.core.clock import Clock
from charonia.observe.exposition import Exposition

NAMES = ("nv_cpu_utilization", "nv_cpu_memory_total_bytes", "nv_cpu_memory_used_bytes")
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
_IDLE = ("idle", "iowait")


class CpuTimes(NamedTuple):
    """Seconds since boot, all cores together."""

    busy: float
    idle: float


class Memory(NamedTuple):
    total_bytes: int
    used_bytes: int


def read_times() -> CpuTimes:
    """Of the whole host; the kinds of time that this system does not have count as none."""
    times = psutil.cpu_times()
    return CpuTimes(sum(getattr(times, name, 0.0) for name in _BUSY), sum(getattr(times, name, 0.0) for name in _IDLE))


def read_memory() -> Memory:
    """Used is what is not available: caches that can be given back do not count."""
    memory = psutil.virtual_memory()
    return Memory(memory.total, memory.total - memory.available)


class CpuMetrics:
    """Utilization between two readings, which are at least `interval_ns` apart; before that the last values stand."""

    def __init__(
        self,
        clock: Clock,
        interval_ns: int,
        times: Callable[[], CpuTimes] = read_times,
        memory: Callable[[], Memory] = read_memory,
    ) -> None:
        self._clock = clock
        self._interval_ns = interval_ns
        self._times = times
        self._memory = memory
        self._read_at_ns = clock.now_ns()
        self._last_times = times()
        self._last_memory = memory()
        self._utilization = 0.0

    def write(self, out: Exposition) -> None:
        self._refresh()
        utilization, total, used = NAMES
        out.single(utilization, "gauge", "Share of the host's CPU time in use, from 0 to 1", self._utilization)
        out.single(total, "gauge", "Memory of the host in bytes", self._last_memory.total_bytes)
        out.single(used, "gauge", "Memory of the host that is in use, in bytes", self._last_memory.used_bytes)

    def _refresh(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns - self._read_at_ns < self._interval_ns:
            return
        self._read_at_ns = now_ns
        times, last = self._times(), self._last_times
        busy, idle = max(times.busy - last.busy, 0.0), max(times.idle - last.idle, 0.0)
        if busy + idle > 0:
            self._utilization = busy / (busy + idle)
        self._last_times = times
        self._last_memory = self._memory()
