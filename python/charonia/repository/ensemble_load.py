"""The load of an ensemble: it has no files and no instances, and its steps, which are loaded before it, have to fit."""

from dataclasses import replace
from typing import TYPE_CHECKING

from charonia.config.findings import errors_in
from charonia.config.model_config import LoadedConfig, finish_config
from charonia.core.errors import CharoniaError
from charonia.engine.ensemble import EnsembleVersion
from charonia.engine.model import ModelVersion
from charonia.repository.identity import IdentifiedModel
from charonia.repository.model_load import ModelLoad
from charonia.repository.plans import Change
from charonia.repository.steps import fitted, labels_of

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class EnsembleLoad(ModelLoad):
    """The plan of one ensemble. What has changed is loaded anew: that takes no time, and keeps all that it accepted."""

    def change(self, version: int, served: ModelVersion) -> Change:
        before, now = self.before, self.source
        is_same = (
            before is not None
            and self.agents is before.agents
            and now.same_folder(before.source)
            and now.fingerprint.same_version(before.source.fingerprint, version)
            and self.loaded.config == before.loaded.config
            and self.fits(served)
        )
        return Change.KEEP if is_same else Change.LOAD

    def fits(self, served: ModelVersion) -> bool:
        """Whether a version that serves is what a load would make of the steps that serve now."""
        models = self.parts.models()
        try:
            finished = self._finished()
            self._bring_labels()
            labels = labels_of(finished.config, self.model.path, models)
        except CharoniaError:
            return False
        return not errors_in(finished.findings) and finished.config == served.config and labels == served.labels

    def load(self, version: int) -> ModelVersion:
        self.check_agents()
        clock = self.parts.services.clock
        started_ns = clock.now_ns()
        self.bring(version)
        finished = self._finished()
        self._report(finished, is_news=version == max(self.versions))
        model = self._ensemble(version, finished.config)
        model.statistics.load_duration_ns = clock.now_ns() - started_ns
        model.start()
        return model

    def _finished(self) -> LoadedConfig:
        fit = fitted(self.model.id, self.loaded, self.parts.models())
        finished = finish_config(fit, fit.config, self.parts.config)
        return replace(finished, findings=tuple(dict.fromkeys((*fit.findings, *finished.findings))))

    def _bring_labels(self) -> None:
        if self.folder is not None:
            self.folder.bring_shared(self.parts.facts.log)

    def _ensemble(self, version: int, config: "ModelConfig") -> ModelVersion:
        labels = labels_of(config, self.model.path, self.parts.models())
        services, held = self.parts.services, self._hold_folder()
        self._tell_missing_cache(config)
        is_shared = services.cache is not None and services.cache.is_shared
        identity = IdentifiedModel(self.model.name, version, config).identity if is_shared else None
        return EnsembleVersion(self.model.id, version, config, labels, services, held, identity)
