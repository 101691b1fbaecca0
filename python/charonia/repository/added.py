"""Repositories that were added while the server runs, and what their models are served as."""

import os
import threading
from collections.abc import Mapping, Sequence

from charonia.core.errors import AlreadyExistsError, InvalidArgumentError
from charonia.core.text import shown
from charonia.repository.repositories import NOT_RENAMED, Renamed


class Added:
    """Changes replace `names` as a whole: who reads it needs no lock."""

    def __init__(self) -> None:
        self.names: Renamed = NOT_RENAMED
        self._lock = threading.Lock()

    def add(self, path: str, names: Mapping[str, str], others: Sequence[str]) -> None:
        """
        Args:
            names: by folder, what the model in it is served as.
            others: the repositories of the start.

        Raises:
            AlreadyExistsError: it is a repository already, or one of the names is taken.
            InvalidArgumentError: it is no folder.
        """
        if not os.path.isdir(path):
            raise InvalidArgumentError(f"failed to register '{shown(path)}', repository not found: it is no folder")
        with self._lock:
            if path in self.names or path in others:
                raise AlreadyExistsError(f"model repository '{shown(path)}' has already been registered")
            taken = {name: where for where, known in self.names.items() for name in known.values()}
            for name in names.values():
                if name in taken:
                    raise AlreadyExistsError(
                        f"failed to register '{shown(path)}': model '{shown(name)}' is in '{taken[name]}' already"
                    )
            self.names = {**self.names, path: dict(names)}

    def remove(self, path: str) -> None:
        """Nothing happens where it is none."""
        with self._lock:
            self.names = {known: names for known, names in self.names.items() if known != path}

    def folder(self, name: str, repository: str) -> str | None:
        """Which folder of the repository is served under this name; None when it is the one of that name."""
        folders = self.names.get(repository, {}).items()
        return next((folder for folder, known in folders if known == name), None)
