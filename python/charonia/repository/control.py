"""Loading and unloading by request: what explicit control does, and the refusals of the other modes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.core.text import shown
from charonia.engine.model import ModelVersion
from charonia.repository.directory import Directory
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.operations import ModelOperations
from charonia.repository.override_files import OverrideFolders
from charonia.repository.repositories import (
    Holders,
    check_model_name,
    duplicate_reason,
    holder_of,
    holders_of_models,
    repository_paths,
)
from charonia.repository.source import ModelSource, source_at


class RepositoryControl:
    """See `control.protocols.ModelControl`.

    Args:
        mode: the control mode of the server.
        repositories: as the user named them.
    """

    def __init__(
        self,
        mode: str,
        repositories: Sequence[str],
        operations: ModelOperations,
        lifecycle: ModelLifecycle[ModelVersion],
    ) -> None:
        self._mode = mode
        self._repositories = repositories
        self._operations = operations
        self._lifecycle = lifecycle
        self._folders = OverrideFolders()

    def load(self, name: str, overrides: LoadOverrides) -> None:
        self._refuse_unless_explicit("load", name)
        check_model_name(name)
        self._operations.load(name, lambda served: self._source(name, overrides, served))

    def unload(self, name: str, dependents: bool) -> None:
        self._refuse_unless_explicit("unload", name)
        if name in self._look_for_models():
            self._operations.unload(name)
        else:
            self._operations.forget(name)

    def close(self) -> None:
        """Remove the files of load requests; after all models were stopped."""
        self._folders.close()

    def _refuse_unless_explicit(self, action: str, name: str) -> None:
        if self._mode != "explicit":
            raise UnavailableError(
                "explicit model load / unload is not allowed if polling is enabled or models are loaded at the start "
                f"only: can't {action} model '{shown(name)}', this server has --model-control-mode={self._mode}; "
                "--model-control-mode=explicit allows it"
            )

    def _source(self, name: str, overrides: LoadOverrides, served: ModelSource | None) -> ModelSource:
        try:
            return (
                self._of_request(name, overrides) if overrides.files else self._of_repository(name, overrides, served)
            )
        except CharoniaError as error:
            # Clients look for this beginning, whatever the reason.
            raise type(error)(
                f"failed to load '{shown(name)}', failed to poll from model repository: {error}"
            ) from None

    def _of_request(self, name: str, overrides: LoadOverrides) -> ModelSource:
        if overrides.config_json is None:
            raise InvalidArgumentError(
                "the load parameter 'config' must be specified for model file override: with files in the request "
                "nothing of the model's own folder is used, not its configuration either"
            )
        folder = self._folders.lay_out(name, overrides.files)
        try:
            return source_at(folder.path, "", overrides.config_json, folder)
        except BaseException:
            folder.release()
            raise

    def _of_repository(self, name: str, overrides: LoadOverrides, served: ModelSource | None) -> ModelSource:
        repository = holder_of(name, self._look_for_models())
        found = source_at(Path(repository, name), repository, overrides.config_json)
        if served is None or overrides or not found.same_folder(served) or found.fingerprint != served.fingerprint:
            return found
        return replace(found, config_json=served.config_json)

    def _look_for_models(self) -> Holders:
        """What the repositories hold now, which the index shows from now on."""
        holders = holders_of_models(repository_paths(self._repositories))
        unusable = {name: duplicate_reason(name, where) for name, where in holders.items() if len(where) > 1}
        self._lifecycle.know([name for name in holders if name not in unusable], unusable)
        return holders


class ModelCalls:
    """See `core.protocols.OtherModels`: what models may ask of the repositories.

    Args:
        control, directory: asked for when they are needed: the models' own part of the server is made before them.
    """

    def __init__(
        self, control: Callable[[], RepositoryControl], directory: Callable[[], Directory[ModelVersion]]
    ) -> None:
        self._control = control
        self._directory = directory

    def load(self, name: str, overrides: LoadOverrides) -> None:
        self._control().load(name, overrides)

    def unload(self, name: str, dependents: bool) -> None:
        self._control().unload(name, dependents)

    def is_ready(self, name: str, version: int) -> bool:
        try:
            return self._directory().find(name, version).live_instances > 0
        except CharoniaError:
            return False
