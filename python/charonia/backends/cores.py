"""How many CPU cores this process may use, and how many of them each instance gets."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from charonia.core.errors import InvalidArgumentError


def available_cores(root: Path = Path("/")) -> int:
    """Whole cores, at least 1: the smaller of the scheduling affinity and the CPU limits of the process's cgroups.

    A limit of 2.5 cores counts as 2: a third thread would only be throttled.

    Args:
        root: where `proc` and `sys` lie; tests give their own.
    """
    limit = _cgroup_limit(root)
    cores = _affinity()
    return max(1, min(cores, int(limit)) if limit is not None else cores)


def threads_per_instance(cores: int, instances: int) -> int:
    """The share of one instance when `instances` of all loaded models run side by side; at least 1."""
    return max(1, cores // max(1, instances))


def pin(cores: Sequence[int]) -> None:
    """Let the calling thread, and those that it starts from now on, run on these cores only; () for no change.

    Raises:
        InvalidArgumentError: this process may use none of them, or the system has no such thing.
    """
    if not cores:
        return
    try:
        os.sched_setaffinity(0, cores)
    except AttributeError:
        raise InvalidArgumentError("a host policy names cores, and this system can't bind threads to cores") from None
    except (OSError, OverflowError, ValueError) as error:
        listed = ", ".join(map(str, cores))
        raise InvalidArgumentError(f"a host policy names the cores {listed}, and none can be used: {error}") from None


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """As `pin`, for as long as this lasts; the threads that are started meanwhile stay there."""
    before = os.sched_getaffinity(0) if cores and hasattr(os, "sched_getaffinity") else None
    pin(cores)
    try:
        yield
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)


def pin_process(pid: int, cores: Sequence[int]) -> None:
    """The same for all threads that another process has. One that has ended is no error."""
    for task in Path(f"/proc/{pid}/task").glob("*") if cores else ():
        with suppress(OSError):
            os.sched_setaffinity(int(task.name), cores)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_limit(root: Path) -> float | None:
    """The tightest limit in cores on the way from the process's cgroups up to their roots; None without one."""
    limits = [limit for folder in _cgroup_folders(root) if (limit := _limit_in(folder)) is not None]
    return min(limits, default=None)


def _cgroup_folders(root: Path) -> list[Path]:
    """The folders that may hold a limit: each cgroup of the process and those above it.

    In a container the path in /proc may be the host's while /sys shows only the container's part of the tree, so the
    mount points themselves are always looked at.
    """
    folders: list[Path] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            folders += _upwards(root / "sys/fs/cgroup", path)
        elif "cpu" in controllers.split(","):
            for mount in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
                folders += _upwards(root / "sys/fs/cgroup" / mount, path)
    return folders


def _upwards(mount: Path, path: str) -> list[Path]:
    inner = Path(path.lstrip("/"))
    return [mount / part for part in (inner, *inner.parents)]


def _limit_in(folder: Path) -> float | None:
    version2 = _read(folder / "cpu.max").split()
    if len(version2) == 2:
        return _ratio(version2[0], version2[1])
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """`quota` is "max" or negative where there is no limit."""
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
