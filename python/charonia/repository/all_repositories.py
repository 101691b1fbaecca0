"""All repositories of one server, in the file system and in clouds: what lies in them now, for one look."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from charonia.config.findings import Finding
from charonia.core.clock import Clock
from charonia.core.cloud_address import CloudAddress, is_cloud_address, parse_cloud_address
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.temporary import TemporaryFolders
from charonia.core.text import in_one_line
from charonia.repository.added import Added
from charonia.repository.files import LOCAL, Entries
from charonia.repository.remote.credentials import credentials_for
from charonia.repository.remote.downloads import Downloads
from charonia.repository.remote.folders import RemoteModel
from charonia.repository.remote.objects import ObjectTree
from charonia.repository.remote.retries import Opened, SteadyStore
from charonia.repository.remote.stores import check_installed, open_store
from charonia.repository.repositories import Holders, holders_of_models, repository_paths

_PREFIX = "charonia-models-"
_MOUNT_VARIABLES = {
    "s3": "TRITON_AWS_MOUNT_DIRECTORY",
    "gs": "TRITON_GCS_MOUNT_DIRECTORY",
    "as": "TRITON_AZURE_MOUNT_DIRECTORY",
}


@dataclass(frozen=True, slots=True)
class CloudParts:
    """What repositories in clouds need of the server.

    Attributes:
        stopping: once it is set, nothing is downloaded and nothing is tried again.
    """

    environment: Mapping[str, str]
    clock: Clock
    stopping: threading.Event
    log: Log


@dataclass(slots=True)
class Snapshot:
    """What all repositories hold at one moment; see `files.Files`. Local folders are looked at when asked for."""

    trees: dict[str, ObjectTree] = field(default_factory=dict)

    def listing(self, path: str) -> Entries:
        for url, tree in self.trees.items():
            if path == url or path.startswith(f"{url}/"):
                return tree.listing(path)
        return LOCAL.listing(path)

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """About what can't be used, whatever it was meant as."""
        return tuple(each for tree in self.trees.values() for each in tree.remarks)


@dataclass(frozen=True, slots=True)
class _CloudRepository:
    address: CloudAddress
    store: SteadyStore
    local: TemporaryFolders

    @property
    def root(self) -> str:
        """The key of the folder."""
        return "/".join(part for part in (self.address.bucket, self.address.path) if part)

    def tree(self) -> ObjectTree:
        """Everything, by one listing."""
        found = self.store.call("list the repository", lambda store: store.objects(self.root))
        tree = ObjectTree.of(self.address.written, self.root, found)
        if not self.address.path:
            tree.add_folders(())  # an empty bucket is there; an empty path is not
        return tree

    def tree_with(self, name: str) -> ObjectTree:
        """The names of all models, and everything of one."""
        key = f"{self.root}/{name}"
        found = self.store.call(f"list '{name}'", lambda store: store.objects(key))
        tree = ObjectTree.of(self.address.written, self.root, found)
        tree.add_folders(self.folders())
        return tree

    def folders(self) -> Sequence[str]:
        return self.store.call("list the models", lambda store: store.folders(self.root))


class AllRepositories:
    """Where models are looked for, and what brings those here that are not in the file system.

    Args:
        given: as the user has named them.
        namespacing: whether each is a namespace of its own.
        cloud: None where all are in the file system.

    Raises:
        InvalidArgumentError: an address that is none, or a folder for downloads that is not there.
        UnsupportedError: what a kind of address needs is not installed.
    """

    def __init__(self, given: Sequence[str], cloud: CloudParts | None = None, *, namespacing: bool = False) -> None:
        self.paths = repository_paths(given)
        self.namespacing = namespacing
        self._added = Added()
        self._downloads: Downloads | None = None
        self._clouds: dict[str, _CloudRepository] = {}
        written = [each for each in self.paths if is_cloud_address(each)]
        if written and cloud is not None:
            self._downloads = Downloads(cloud.clock, cloud.stopping)
            local: dict[str, TemporaryFolders] = {}
            for each in written:
                address = parse_cloud_address(each)
                if address.kind not in local:
                    local[address.kind] = _local_folders(address.kind, cloud)
                self._clouds[each] = _cloud_repository(address, cloud, local[address.kind])

    def look(self) -> Snapshot:
        """Everything.

        Raises:
            CharoniaError: a store can't be read; there is nothing to see then, and nothing to conclude.
        """
        return self._look(lambda cloud: cloud.tree())

    def look_for(self, name: str) -> Snapshot:
        """The names of all models, and everything of those with this name. Raises as `look`."""
        return self._look(lambda cloud: cloud.tree_with(name))

    def holders(self, files: Snapshot) -> Holders:
        """All folders that may be models."""
        added = self._added.names
        return holders_of_models((*self.paths, *added), files, namespacing=self.namespacing, renamed=added)

    def add(self, path: str, names: Mapping[str, str]) -> None:
        """One more, in the file system. Raises as `Added.add`.

        Args:
            names: by folder, what the model in it is served as.
        """
        self._added.add(path, names, self.paths)

    def remove(self, path: str) -> None:
        """One that was added."""
        self._added.remove(path)

    def folder(self, model: ModelId, repository: str) -> tuple[str, bool]:
        """The name of a model's folder, and whether the model has another one."""
        folder = self._added.folder(model.name, repository)
        return (model.name, False) if folder is None else (folder, True)

    def remote(self, model: ModelId, repository: str, files: Snapshot) -> RemoteModel | None:
        """What brings a model here; None for a folder in the file system."""
        cloud = self._clouds.get(repository)
        if cloud is None or self._downloads is None:
            return None
        objects, folders = files.trees[repository].model(model.name)
        return RemoteModel(f"{repository}/{model.name}", objects, folders, cloud.store, self._downloads, cloud.local)

    def read_configs(self, models: Sequence[RemoteModel]) -> None:
        """Of many models, side by side: one after the other would be a round trip each. What fails is found later."""
        if self._downloads is not None:
            self._downloads.each(RemoteModel.read_configs, models)

    def close(self) -> None:
        """Remove what was downloaded, after all models were stopped."""
        if self._downloads is not None:
            self._downloads.close()
        for cloud in self._clouds.values():
            cloud.local.close()

    def _look(self, tree_of: Callable[[_CloudRepository], ObjectTree]) -> Snapshot:
        snapshot = Snapshot()
        for url, cloud in self._clouds.items():
            try:
                snapshot.trees[url] = tree_of(cloud)
            except CharoniaError as error:
                raise type(error)(f"model repository '{url}' can't be read: {error}") from None
        return snapshot


def _cloud_repository(address: CloudAddress, cloud: CloudParts, local: TemporaryFolders) -> _CloudRepository:
    check_installed(address.kind)
    reopen = partial(_open, address, cloud.environment)
    return _CloudRepository(address, SteadyStore(address, reopen, cloud.clock, cloud.stopping, cloud.log), local)


def _open(address: CloudAddress, environment: Mapping[str, str]) -> Opened:
    """With the credentials that there are now."""
    credentials = credentials_for(address, environment)
    try:
        return open_store(address, credentials), credentials
    except CharoniaError:
        raise
    except Exception as error:  # of the library: a file with keys that is none, a key of another form
        reason = credentials.redacted(in_one_line(f"{type(error).__name__}: {error}"))
        raise InvalidArgumentError(
            f"the credentials from {credentials.source} can't be used for {address.host}: {reason}"
        ) from None


def _local_folders(kind: str, cloud: CloudParts) -> TemporaryFolders:
    variable = _MOUNT_VARIABLES[kind]
    mount = cloud.environment.get(variable, "")
    if mount and not os.path.isdir(mount):
        raise InvalidArgumentError(
            f"{variable}='{mount}' is no folder: models of {kind}:// can't be downloaded into it"
        )
    return TemporaryFolders(_PREFIX, Path(mount) if mount else None)
