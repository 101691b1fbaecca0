"""Folders of models that are no folders of a repository: removed when all who hold them have let go.

They lie in `core.temporary.TemporaryFolders`, which removes what a killed server leaves behind.
"""

import shutil
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from charonia.config.findings import ConfigError, Finding
from charonia.core.errors import CharoniaError
from charonia.core.log import Log


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
