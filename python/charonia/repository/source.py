"""Where a model is loaded from, and what has changed since."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from charonia.config.schema import ModelConfig
from charonia.core.errors import NotFoundError
from charonia.core.model_id import ModelId
from charonia.repository.all_repositories import AllRepositories
from charonia.repository.files import LOCAL, Files
from charonia.repository.fingerprint import Fingerprint, fingerprint
from charonia.repository.plans import Change
from charonia.repository.remote.folders import RemoteModel
from charonia.repository.repositories import missing_reason
from charonia.repository.scan import FoundModel, Scan, look_at, scan
from charonia.repository.temporary import TemporaryFolder

# What can change without the model being loaded anew: how many instances there are, and which versions serve.
_NOT_IN_THE_MODEL = ("instance_group", "version_policy")


Look = Callable[[ModelId, "ModelSource | None"], "ModelSource"]
"""Gives what to load of a model now, told what the one that serves was loaded from. Raises CharoniaError if there is
nothing."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's folder at one moment.

    Attributes:
        fingerprint: of the folder, taken before anything was read: what changed later differs from it.
        config_json: the configuration of a load request, in place of any file.
        folder: for the files of a load request; None for a folder of a repository.
        remote: what brings the model here; None for a folder in the file system.
    """

    found: FoundModel
    fingerprint: Fingerprint
    config_json: str | None = None
    folder: TemporaryFolder | None = None
    remote: RemoteModel | None = None

    @property
    def id(self) -> ModelId:
        return self.found.id

    @property
    def name(self) -> str:
        return self.found.name

    def open(self) -> TemporaryFolder | None:
        """The folder to load from, with the configuration in it, which the caller holds then.

        Returns:
            None for the folder in the repository.

        Raises:
            CharoniaError: the configuration can't be brought here.
        """
        if self.remote is not None:
            return self.remote.open()
        if self.folder is not None:
            self.folder.hold()
        return self.folder

    def same_folder(self, other: "ModelSource") -> bool:
        """Whether both are the same folder of a repository. The files of a request are other ones each time."""
        return self.folder is None and other.folder is None and self.found.path == other.found.path


def source_at(
    path: str | Path,
    repository: str,
    config_json: str | None = None,
    folder: TemporaryFolder | None = None,
    *,
    files: Files = LOCAL,
) -> ModelSource:
    """Look at a folder.

    Raises:
        InvalidArgumentError: it can't be read.
    """
    seen = fingerprint(path, files)
    return ModelSource(look_at(path, repository, files), seen, config_json, folder)


def change_between(
    before: ModelSource, now: ModelSource, version: int, known: tuple[ModelConfig, ModelConfig], wanted: ModelConfig
) -> Change:
    """What a version that was loaded from `before` needs to be as `now` says.

    Args:
        known: the configuration that it was loaded with, as written and as completed by the model.
        wanted: the configuration that it shall have, as written.
    """
    if not now.same_folder(before) or not now.fingerprint.same_version(before.fingerprint, version):
        return Change.LOAD
    if wanted == known[0]:
        return Change.KEEP
    # Who asks for the configuration, changes the number of instances and sends it back, has sent the completed one.
    if model_part(wanted) not in [model_part(config) for config in known]:
        return Change.LOAD
    return Change.UPDATE


def model_part(config: ModelConfig) -> ModelConfig:
    """Of a configuration, what can't change without the model being loaded anew."""
    part = ModelConfig()
    part.CopyFrom(config)
    for field in _NOT_IN_THE_MODEL:
        part.ClearField(field)  # type: ignore[arg-type]
    return part


def with_new_instances(served: ModelConfig, wanted: ModelConfig) -> ModelConfig:
    """The configuration of a version that serves, with what an update changes of it."""
    config = ModelConfig()
    config.CopyFrom(served)
    for field in _NOT_IN_THE_MODEL:
        config.ClearField(field)  # type: ignore[arg-type]
    config.instance_group.MergeFrom(wanted.instance_group)
    config.version_policy.MergeFrom(wanted.version_policy)
    return config


def look_around(repositories: AllRepositories) -> tuple[Scan, dict[ModelId, ModelSource]]:
    """Everything in the repositories; by id, the models that can be loaded.

    Raises:
        InvalidArgumentError: a repository that is no folder, or can't be read.
        UnavailableError: one in a cloud that can't be reached.
    """
    files = repositories.look()
    # First of all: what changes while the rest is read differs from its fingerprint, so that the next look finds it.
    seen = {
        model: fingerprint(f"{where[0]}/{model.name}", files) for model, where in repositories.holders(files).items()
    }
    found = scan(repositories.paths, files, namespacing=repositories.namespacing)
    sources = {
        model.id: ModelSource(
            model, seen.get(model.id, Fingerprint()), remote=repositories.remote(model.id, model.repository, files)
        )
        for model in found.models.values()
    }
    return replace(found, warnings=(*found.warnings, *files.remarks)), sources


def look_in(sources: Mapping[ModelId, ModelSource]) -> Look:
    """Looks for models among these, and leaves others that serve as they are."""

    def look(model: ModelId, served: ModelSource | None) -> ModelSource:
        source = sources.get(model, served)
        if source is None:
            raise NotFoundError(missing_reason(model, sources))
        return source

    return look
