"""Reading files of a repository, whose makers may have put anything there."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most_bytes: int | None = None) -> bytes:
    """The content of a file, or its first `most_bytes`.

    A pipe would keep its reader waiting, and a device such as /dev/zero has no end: neither is read.

    Raises:
        OSError: it can't be read, or is no regular file; `strerror` says which.
    """
    # Without waiting: opening a pipe otherwise waits for somebody who writes into it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file but a pipe or a device", str(path))
        return file.read(-1 if most_bytes is None else most_bytes)
