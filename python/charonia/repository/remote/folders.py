"""A model brought here from a store: its configuration first, then what the versions that are served need."""

import os
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from charonia.config.model_config import CONFIG_FILE, CUSTOM_CONFIGS
from charonia.core.errors import UnavailableError
from charonia.core.log import Log
from charonia.core.temporary import TemporaryFolders
from charonia.repository.remote.downloads import Downloads
from charonia.repository.remote.objects import ObjectTree
from charonia.repository.remote.retries import MissingError, SteadyStore
from charonia.repository.remote.stores import Store, StoredObject
from charonia.repository.strays import is_version
from charonia.repository.temporary import TemporaryFolder

_MAX_CONFIG_BYTES = 64 << 20


class RemoteModel:
    """A model's folder in a store as one listing has it.

    Args:
        url: of the folder.
        objects: by path relative to the folder.
        folders: relative paths of the folders in it.
    """

    def __init__(
        self,
        url: str,
        objects: Mapping[str, StoredObject],
        folders: Sequence[str],
        store: SteadyStore,
        downloads: Downloads,
        local: TemporaryFolders,
    ) -> None:
        self.url = url
        self.name = url.rpartition("/")[2]
        self.objects = objects
        self.folders = folders
        self.store = store
        self.downloads = downloads
        self._local = local
        self._configs: dict[str, bytes] | None = None

    def read_configs(self) -> Mapping[str, bytes]:
        """The configurations that the model has, by path; asked of the store once.

        Raises CharoniaError.
        """
        if self._configs is None:
            wanted = {path: stored for path, stored in self.objects.items() if _is_config(path)}
            self._configs = {path: self._read(stored) for path, stored in wanted.items()}
        return self._configs

    def open(self) -> "RemoteFolder":
        """A folder with the configuration, and empty files in place of all others; the caller holds it.

        Raises CharoniaError.
        """
        configs = self.read_configs()
        try:
            root = self._local.make()
            folder = RemoteFolder(root, root / self.name, self)
            try:
                folder.sketch(configs)
            except BaseException:
                folder.release()
                raise
        except OSError as error:
            raise self.failed(error) from None
        return folder

    def now(self) -> Mapping[str, StoredObject]:
        """The objects as they are now. Raises CharoniaError."""
        key = "/".join(p for p in (self.store.address.bucket, self.store.address.path, self.name) if p)
        found = self.store.call(f"list '{self.name}'", lambda store: store.objects(key))
        return ObjectTree.of(self.url, key, found).objects

    def failed(self, error: OSError) -> Exception:
        """The error for files that can't be written."""
        return self._local.failed(self.name, error, "it needs room for the models that are served")

    def _read(self, stored: StoredObject) -> bytes:
        if stored.size > _MAX_CONFIG_BYTES:
            raise UnavailableError(f"'{stored.key}' is no configuration: it has {stored.size} bytes")
        root = self._local.make()
        try:
            return self._content(stored, root / "config")
        except MissingError:
            raise UnavailableError(f"'{stored.key}' was removed after it was listed") from None
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _content(self, stored: StoredObject, to: Path) -> bytes:
        def fetch(store: Store) -> bytes:
            store.fetch(stored.key, to, lambda count: None)
            return to.read_bytes()

        return self.store.call(f"download '{stored.key}'", fetch)


class RemoteFolder(TemporaryFolder):
    """See `TemporaryFolder`. What was brought stays until the last holder lets go."""

    def __init__(self, root: Path, path: Path, model: RemoteModel) -> None:
        super().__init__(root, path)
        self._model = model
        self._bringing = threading.Lock()
        self._has_shared = False
        self._brought: set[int] = set()

    def sketch(self, configs: Mapping[str, bytes]) -> None:
        """Which files there are tells the backend, so that the configuration can be read. Raises OSError."""
        self.path.mkdir()
        for folder in self._model.folders:
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        for path in self._model.objects:
            (self.path / path).parent.mkdir(parents=True, exist_ok=True)
            (self.path / path).write_bytes(configs.get(path, b""))

    def bring_shared(self, log: Log) -> None:
        with self._bringing:
            self._bring_shared(log)

    def bring(self, version: int, log: Log) -> None:
        with self._bringing:
            self._bring_shared(log)
            if version in self._brought:
                return
            wanted = {path: each for path, each in self._model.objects.items() if _version_of(path) == str(version)}
            self._mkdirs(path for path in self._model.folders if _version_of(f"{path}/") == str(version))
            self._take(f"model '{self._model.name}' version {version}", wanted, log)
            self._brought.add(version)

    def at_home(self, text: str) -> str:
        return text.replace(os.fspath(self.path), self._model.url)

    def _bring_shared(self, log: Log) -> None:
        """The empty files of versions go: what is not served is not here."""
        if self._has_shared:
            return
        for name in self._model.folders:
            if is_version(name):
                shutil.rmtree(self.path / name, ignore_errors=True)
        objects = self._model.objects
        wanted = {path: each for path, each in objects.items() if not _version_of(path) and not _is_config(path)}
        self._take(f"model '{self._model.name}'", wanted, log)
        self._has_shared = True

    def _mkdirs(self, paths: Iterable[str]) -> None:
        try:
            for path in paths:
                (self.path / path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._model.failed(error) from None

    def _take(self, what: str, wanted: Mapping[str, StoredObject], log: Log) -> None:
        model = self._model
        try:
            model.downloads.take(what, model.store, wanted, self.path, model.now, log)
        except OSError as error:
            raise model.failed(error) from None


def _is_config(path: str) -> bool:
    return path == CONFIG_FILE or path.startswith(f"{CUSTOM_CONFIGS}/")


def _version_of(path: str) -> str:
    """The version folder that a path is in, "" for none."""
    top, separator, _ = path.partition("/")
    return top if separator and is_version(top) else ""
