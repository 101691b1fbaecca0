"""Limits that follow from the machine, where no flag sets them."""

import resource
from pathlib import Path

import psutil

_MOST_CONNECTIONS = 16_384
_MOST_REQUEST_BYTES = 4 << 30

# Of the container, by version of control groups; "max" or a huge number when it has none.
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def default_max_connections() -> int:
    """Half of the files that this process may open: models, logs and child processes need the others."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_CONNECTIONS, files // 2)) if files != resource.RLIM_INFINITY else _MOST_CONNECTIONS


def default_request_memory() -> int:
    """Half of the memory, in bytes, but not more than bodies ever need."""
    return min(_MOST_REQUEST_BYTES, half_of_memory())


def half_of_memory() -> int:
    """In bytes, of the machine or of the container."""
    return min(psutil.virtual_memory().total, *map(_container_limit, _CONTAINER_LIMITS)) // 2


def _container_limit(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return psutil.virtual_memory().total
