"""Loading and unloading by request: what explicit control does, and the refusals of the other modes."""

from dataclasses import replace

from charonia.core.errors import AlreadyExistsError, CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.overrides import NO_OVERRIDES, LoadOverrides
from charonia.core.text import shown
from charonia.engine.model import ModelVersion
from charonia.repository.all_repositories import AllRepositories, Snapshot
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.operations import ModelOperations
from charonia.repository.override_files import OverrideFolders
from charonia.repository.repositories import Holders, check_model_name, duplicate_reason, holder_of, of_name
from charonia.repository.source import ModelSource, source_at
from charonia.repository.turns import Turn


class RepositoryControl:
    """See `control.protocols.ModelControl`.

    Args:
        mode: the control mode of the server.
    """

    def __init__(
        self,
        mode: str,
        repositories: AllRepositories,
        operations: ModelOperations,
        lifecycle: ModelLifecycle[ModelVersion],
        log: Log,
    ) -> None:
        self._mode = mode
        self._log = log
        self._repositories = repositories
        self._operations = operations
        self._lifecycle = lifecycle
        self._folders = OverrideFolders()

    def load(self, name: str, overrides: LoadOverrides, within: Turn | None = None) -> None:
        """All models of this name. `within` is the turn of an operation that waits for this one."""
        self._refuse_unless_explicit("load", name)
        check_model_name(name)
        asked = [ModelId(name)] if overrides.files else of_name(name, self._look_for_models(name)[1])

        def look(each: ModelId, served: ModelSource | None) -> ModelSource:
            return self._source(each, overrides if each in asked else NO_OVERRIDES, served)

        self._operations.load(asked, look, within)

    def unload(self, name: str, dependents: bool, within: Turn | None = None) -> None:
        """`within` is as for `load`."""
        self._refuse_unless_explicit("unload", name)
        known = self._lifecycle.directory.models
        try:
            there = self._look_for_models(name)[1].keys()
        except UnavailableError:  # that a repository is away for a moment is no reason to keep a model loaded
            there = known.keys()
        for model in of_name(name, dict.fromkeys((*there, *known))):
            take_out = self._operations.unload if model in there else self._operations.forget
            take_out(model, dependents=dependents, within=within)

    def add(self, repository: str, folder: str, name: str) -> None:
        """As `ModelControl.add`."""
        self._refuse_unless_explicit("load", name)
        check_model_name(name)
        self._repositories.add(repository, {folder: name})
        model = self._id(name, repository)
        holders = self._holders(name)
        if len(holders.get(model, ())) > 1:
            self._repositories.remove(repository)
            raise AlreadyExistsError(duplicate_reason(model, holders[model]))

        def look(each: ModelId, served: ModelSource | None) -> ModelSource:
            return self._source(each, NO_OVERRIDES, served)

        try:
            self._operations.load([model], look)
        except BaseException:
            self._take_away(model, repository)
            raise
        self._log.about(model).info(f"model repository '{repository}' is added, with its model '{name}'")

    def remove(self, repository: str, name: str, timeout_s: float) -> bool:
        """As `ModelControl.remove`."""
        ended = self._take_away(self._id(name, repository), repository, timeout_s)
        self._log.info(f"model repository '{repository}' is taken away")
        return ended

    def _take_away(self, model: ModelId, repository: str, timeout_s: float = 0.0) -> bool:
        """The model with what only it needs, and whatever else of the repository was loaded."""
        holders = self._holders(model.name)
        there = [each for each, where in holders.items() if tuple(where) == (repository,)]
        leaving = list(dict.fromkeys([model, *there]))
        self._operations.forget(model, dependents=True)
        for each in leaving[1:]:
            self._operations.forget(each)
        self._repositories.remove(repository)
        return self._lifecycle.wait_ended(leaving, timeout_s)

    def _holders(self, name: str) -> Holders:
        try:
            return self._repositories.holders(self._repositories.look_for(name))
        except UnavailableError:  # of clouds: what is added lies here
            return {}

    def _id(self, name: str, repository: str) -> ModelId:
        return ModelId(name, repository if self._repositories.namespacing else "")

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

    def _source(self, model: ModelId, overrides: LoadOverrides, served: ModelSource | None) -> ModelSource:
        try:
            return (
                self._of_request(model.name, overrides)
                if overrides.files
                else self._of_repository(model, overrides, served)
            )
        except CharoniaError as error:
            # Clients look for this beginning, whatever the reason.
            raise type(error)(
                f"failed to load '{shown(model)}', failed to poll from model repository: {error}"
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

    def _of_repository(self, model: ModelId, overrides: LoadOverrides, served: ModelSource | None) -> ModelSource:
        files, holders = self._look_for_models(model.name)
        repository = holder_of(model, holders)
        folder, renamed = self._repositories.folder(model, repository)
        found = source_at(f"{repository}/{folder}", repository, overrides.config_json, files=files)
        found = replace(
            found,
            found=replace(found.found, name=model.name, namespace=model.namespace, renamed=renamed),
            remote=self._repositories.remote(model, repository, files),
        )
        if served is None or overrides or not found.same_folder(served) or found.fingerprint != served.fingerprint:
            return found
        return replace(found, config_json=served.config_json)

    def _look_for_models(self, name: str) -> tuple[Snapshot, Holders]:
        """What the repositories hold now, which the index shows from now on; of models of this name all of it."""
        files = self._repositories.look_for(name)
        holders = self._repositories.holders(files)
        unusable = {model: duplicate_reason(model, where) for model, where in holders.items() if len(where) > 1}
        self._lifecycle.know([model for model in holders if model not in unusable], unusable)
        return files, holders
