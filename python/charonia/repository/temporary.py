"""Folders of models that are no folders of a repository: removed when all who hold them have let go.

What a process leaves behind that was killed, the next server with the same place removes: a lock, which ends with the
process, tells it from what is in use.
"""

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from charonia.config.findings import ConfigError, Finding
from charonia.core.errors import CharoniaError, InternalError
from charonia.core.log import Log
from charonia.core.text import shown

_LOCK = ".in-use"


class TemporaryFolder:
    """A model's folder. Whoever made it holds it already.

    Attributes:
        path: the folder, named by the model.
    """

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        self._root = root
        self._lock = threading.Lock()
        self._holders = 1

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            shutil.rmtree(self._root, ignore_errors=True)

    def bring_shared(self, log: Log) -> None:
        """See that what every version may use is in the folder: all but the version folders. Raises CharoniaError."""

    def bring(self, version: int, log: Log) -> None:
        """The same of one version. Here everything is in place from the beginning."""

    def at_home(self, text: str) -> str:
        """A message about the folder, as the user knows it: where the files come from."""
        return text


class TemporaryFolders:
    """All such folders of one kind, under one that only its user may enter.

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


def findings_at_home(findings: Iterable[Finding], folder: TemporaryFolder) -> list[Finding]:
    """As the user knows them, see `TemporaryFolder.at_home`."""
    return [_finding_at_home(each, folder) for each in findings]


def told_at_home(error: CharoniaError, folder: TemporaryFolder) -> CharoniaError:
    if isinstance(error, ConfigError):
        return ConfigError(findings_at_home(error.findings, folder))
    return type(error)(folder.at_home(str(error)))


def _finding_at_home(finding: Finding, folder: TemporaryFolder) -> Finding:
    place = finding.place
    return replace(
        finding,
        place=None if place is None else replace(place, file=folder.at_home(place.file)),
        message=folder.at_home(finding.message),
        remedy=folder.at_home(finding.remedy),
    )
