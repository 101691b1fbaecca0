"""Folders for temporary files, which end with the process.

What a process leaves behind that was killed, the next server with the same place removes: a lock, which ends with the
process, tells it from what is in use.
"""

import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from charonia.core.errors import InternalError
from charonia.core.text import shown

_LOCK = ".in-use"


class TemporaryFolders:
    """All folders of one kind, under one that only its user may enter.

    Args:
        above: where that one lies; None for the system's folder for temporary files.
    """

    def __init__(self, prefix: str, above: Path | None = None) -> None:
        self._prefix = prefix
        self._above = above
        self._lock = threading.Lock()
        self._root: Path | None = None
        self._in_use = -1

    def make(self) -> Path:
        """A new, empty folder. Raises OSError."""
        with self._lock:
            if self._root is None:
                self._remove_left_behind()
                self._root = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self._above))
                self._in_use = _locked(self._root / _LOCK)
            return Path(tempfile.mkdtemp(dir=self._root))

    def close(self) -> None:
        """Remove what is left, whoever holds it."""
        with self._lock:
            root, self._root = self._root, None
            in_use, self._in_use = self._in_use, -1
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)
        if in_use >= 0:
            os.close(in_use)

    def _remove_left_behind(self) -> None:
        for lock in Path(self._above or tempfile.gettempdir()).glob(f"{self._prefix}*/{_LOCK}"):
            with suppress(OSError):  # somebody else's, or in use
                descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(lock.parent, ignore_errors=True)
                finally:
                    os.close(descriptor)

    def failed(self, model: str, error: OSError, remedy: str) -> InternalError:
        """The error for files that can't be written."""
        above, reason = os.fspath(self._above or tempfile.gettempdir()), error.strerror or error
        return InternalError(
            f"the files for model '{shown(model)}' can't be written under '{above}': {reason}; {remedy}"
        )


def _locked(path: Path) -> int:
    """A new file that is locked from the moment on at which it has its name."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(path)
    return descriptor
