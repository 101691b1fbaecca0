"""Where a model is loaded from, and what has changed since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charonia.config.schema import ModelConfig
from charonia.core.errors import NotFoundError
from charonia.repository.fingerprint import Fingerprint, fingerprint
from charonia.repository.override_files import OverrideFolder
from charonia.repository.plans import Change
from charonia.repository.repositories import holders_of_models, missing_reason, repository_paths
from charonia.repository.scan import FoundModel, Scan, look_at, scan

# What can change without the model being loaded anew: how many instances there are, and which versions serve.
_NOT_IN_THE_MODEL = ("instance_group", "version_policy")


Look = Callable[[str, "ModelSource | None"], "ModelSource"]
"""Gives what to load of a model now, told what the one that serves was loaded from. Raises CharoniaError if there is
nothing."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's folder at one moment.

    Attributes:
        fingerprint: of the folder, taken before anything was read: what changed later differs from it.
        config_json: the configuration of a load request, in place of any file.
        folder: for the files of a load request; None for a folder of a repository.
    """

    found: FoundModel
    fingerprint: Fingerprint
    config_json: str | None = None
    folder: OverrideFolder | None = None

    @property
    def name(self) -> str:
        return self.found.name

    def same_folder(self, other: "ModelSource") -> bool:
        """Whether both are the same folder of a repository. The files of a request are other ones each time."""
        return self.folder is None and other.folder is None and self.found.path == other.found.path


def source_at(
    path: Path, repository: str, config_json: str | None = None, folder: OverrideFolder | None = None
) -> ModelSource:
    """Look at a folder.

    Raises:
        InvalidArgumentError: it can't be read.
    """
    seen = fingerprint(path)
    return ModelSource(look_at(path, repository), seen, config_json, folder)


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


def look_around(repositories: Sequence[str]) -> tuple[Scan, dict[str, ModelSource]]:
    """Everything in the repositories; by name, the models that can be loaded.

    Raises:
        InvalidArgumentError: a repository that is no folder, or can't be read.
        UnsupportedError: one that is not in the file system.
    """
    paths = repository_paths(repositories)
    # First of all: what changes while the rest is read differs from its fingerprint, so that the next look finds it.
    seen = {name: fingerprint(Path(where[0], name)) for name, where in holders_of_models(paths).items()}
    found = scan(paths)
    return found, {name: ModelSource(model, seen.get(name, Fingerprint())) for name, model in found.models.items()}


def look_in(sources: Mapping[str, ModelSource]) -> Look:
    """Looks for models among these, and leaves others that serve as they are."""

    def look(name: str, served: ModelSource | None) -> ModelSource:
        source = sources.get(name, served)
        if source is None:
            raise NotFoundError(missing_reason(name, sources))
        return source

    return look
