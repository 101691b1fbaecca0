"""The load of one model: from its folder to versions that serve. Complete the config, load, make instances, warm up."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from charonia.backends.base import Backend, ModelContext, MortalInstance
from charonia.backends.instance import InstanceRunner
from charonia.backends.placement import instance_count, place
from charonia.backends.warmup import WarmupSample, warm_up, warmup_samples
from charonia.config.announce import log_completed
from charonia.config.findings import Finding
from charonia.config.model_config import LoadedConfig, finish_config
from charonia.config.steps import step_names
from charonia.core.errors import CharoniaError, InternalError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.protocols import Bell
from charonia.engine.model import ModelVersion
from charonia.engine.services import ModelServices
from charonia.engine.update import InstanceUpdate
from charonia.repository.agent_runs import AgentRun, AgentRuns
from charonia.repository.calls import ModelCalls
from charonia.repository.directory import Directory
from charonia.repository.identity import IdentifiedModel
from charonia.repository.inspection import (
    InspectionParts,
    ModelReading,
    explained,
    inspect_version,
    model_context,
)
from charonia.repository.labels import read_labels
from charonia.repository.plans import Change
from charonia.repository.scan import FoundModel
from charonia.repository.source import ModelSource, change_between, with_new_instances
from charonia.repository.strategy import load_strategy
from charonia.repository.temporary import TemporaryFolder, findings_at_home, told_at_home
from charonia.repository.turns import Turn
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.state import state_store

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

NewBell = Callable[[], tuple[Bell, int]]
"""Gives the bell of one model version, and its route."""

# How long the instances of a model whose warm-up failed may take to end.
_DISCARD_S = 5.0


@dataclass(frozen=True, slots=True)
class LoaderParts(InspectionParts):
    """What loading needs of the server.

    Attributes:
        services: what every model version shares.
        models: the models at this moment.
        calls: what models may ask of the repositories.
        on_health: told when an instance went down, came back, or was given up; from any thread, so it must not block.
        agents: runs the repository agents of models.
    """

    services: ModelServices
    new_bell: NewBell
    models: Callable[[], Directory[ModelVersion]]
    calls: ModelCalls
    on_health: Callable[[ModelVersion], None]
    agents: AgentRuns

    def about(self, model: str) -> "LoaderParts":
        """The same parts, with the log for lines about one model."""
        log = self.facts.log.about(model)
        return replace(self, facts=replace(self.facts, log=log), services=replace(self.services, log=log))


@dataclass(slots=True)
class ModelLoad:
    """The plan of one model; implements `repository.plans.ModelPlan`.

    Attributes:
        before: what the model that serves was loaded by.
        turn: of the operation that this is a part of.
        folder: where the model's files are put, or are, if not in a folder of a repository.
        agents: what the model's repository agents did; None for a model without agents.
    """

    parts: LoaderParts
    reading: ModelReading
    source: ModelSource
    before: "ModelLoad | None" = None
    turn: Turn | None = None
    cpu_threads: int = 1
    folder: TemporaryFolder | None = None
    agents: AgentRun | None = None

    def bare(self) -> "ModelLoad":
        """Without what was before it: a model that is loaded again and again has no endless history."""
        return replace(self, before=None)

    def hold(self) -> None:
        """Keep the folder for one holder more; whoever has the plan made holds it already."""
        for each in (self.folder, self.agents):
            if each is not None:
                each.hold()

    def release(self) -> None:
        for each in (self.agents, self.folder):
            if each is not None:
                each.release()

    def check_agents(self) -> None:
        """What agents are to look at first is never loaded without. Raises InternalError: it would be, by a bug."""
        if self.reading.wants_agents and self.agents is None:
            raise InternalError(f"the repository agents of model '{self.model.name}' were not run")

    def at_home(self, findings: Iterable[Finding]) -> Iterable[Finding]:
        """With the places that the user knows."""
        return findings if self.folder is None else findings_at_home(findings, self.folder)

    def bring(self, version: int) -> None:
        """See that the files of a version are in the file system. Raises CharoniaError."""
        if self.folder is not None:
            self.folder.bring(version, self.parts.facts.log)

    @property
    def model(self) -> FoundModel:
        return self.reading.model

    @property
    def loaded(self) -> LoadedConfig:
        return self.reading.loaded

    @property
    def versions(self) -> tuple[int, ...]:
        return self.reading.versions

    @property
    def steps(self) -> tuple[ModelId, ...]:
        """Of an ensemble, the models that it needs."""
        return step_names(self.loaded.config)

    @property
    def instances(self) -> int:
        """How many instances share the cores."""
        return instance_count(self.loaded.config, self.parts.devices) * len(self.versions) if not self.steps else 0

    def change(self, version: int, served: ModelVersion) -> Change:
        """What a version that serves needs, to be as this plan says."""
        before = self.before
        if before is None or self.agents is not before.agents:  # agents may make anything of what has changed
            return Change.LOAD
        known = (before.loaded.config, served.config)
        return change_between(before.source, self.source, version, known, self.loaded.config)

    def update(self, version: int, served: ModelVersion) -> InstanceUpdate:
        """Prepare other instances for a version that serves. Raises CharoniaError with the reason."""
        parts = self.parts
        self.bring(version)
        config = with_new_instances(served.config, self.loaded.config)
        finished = finish_config(self.loaded, config, parts.config)
        self._report(finished)
        specs = place(config, parts.devices, self.cpu_threads, parts.facts.log)
        update = InstanceUpdate(served, config, specs)
        try:
            self._prepare(served, update.added, warmup_samples(config, self.model.path))
        except BaseException:
            update.discard()
            raise
        return update

    def load(self, version: int) -> ModelVersion:
        """Raises CharoniaError with the reason, having freed everything."""
        self.check_agents()
        self.bring(version)
        try:
            with self.parts.calls.during(self.turn) as calls:
                return self._load(version, replace(self.parts, facts=replace(self.parts.facts, models=calls)))
        except CharoniaError as error:
            why = explained(error, lambda: inspect_version(self.reading, version, self.parts))
            raise (why if self.folder is None else told_at_home(why, self.folder)) from error

    def _load(self, version: int, parts: LoaderParts) -> ModelVersion:
        started_ns = parts.services.clock.now_ns()
        backend = parts.registry.get(self.loaded.config.backend)
        context = model_context(self.reading, version, self.loaded.config, parts)
        if parts.facts.auto_complete:
            context = replace(context, config=backend.complete_config(context))
        finished = finish_config(self.loaded, context.config, parts.config, context.completions)
        self._report(finished, is_news=version == max(self.versions))
        model = self._make(backend, replace(context, config=finished.config))
        model.statistics.load_duration_ns = parts.services.clock.now_ns() - started_ns
        model.start()
        return model

    def _report(self, finished: LoadedConfig, *, is_news: bool = False) -> None:
        """`is_news`: say what was filled in, which is the same for every version."""
        log = self.parts.facts.log
        new = [each for each in finished.findings if each not in self.loaded.findings]
        warn(log, self.model.name, self.at_home(new))
        finished.raise_on_errors()
        if is_news:
            log_completed(log, finished)

    def _make(self, backend: Backend, context: ModelContext) -> ModelVersion:
        """Load the model, make its instances, warm them up. The cheap checks come first."""
        parts, config = self.parts, context.config
        specs = place(config, parts.devices, self.cpu_threads, parts.facts.log)
        labels = read_labels(config, context.model_dir)
        samples = warmup_samples(config, context.model_dir)
        states = state_store(config, context.model_dir)
        self._tell_missing_cache(config)
        identified = self._identified(context)
        strategy = load_strategy(context)
        # The order of a sequence is kept by the one thread that takes what no idle instance takes itself.
        # What a cache may answer needs no instance, and that thread alone answers 7 % more than two that take turns.
        is_cached = config.response_cache.enable and parts.services.cache is not None
        is_apart = is_cached or config.HasField("sequence_batching")
        bell, route = (ConditionBell(), 0) if is_apart else parts.new_bell()
        try:
            loaded = backend.load(context)
        except BaseException:
            strategy.close()
            raise
        model = ModelVersion(
            self.model.id,
            context.version,
            config,
            labels,
            loaded,
            specs,
            bell,
            route,
            parts.services,
            on_closed=partial(_end_all, self._hold_folder(), strategy.close),
            states=states,
            cache_identity=identified.identity if identified is not None else None,
            strategy=strategy.hooks,
        )
        try:
            self._prepare(model, model.instances, samples)
        except BaseException:
            model.stop(_DISCARD_S)
            raise
        if identified is not None and identified.has_changed():
            log = parts.facts.log
            log.info(f"model '{model.name}': its folder has changed while it was loaded: it shares no cached responses")
            model.renew_cache_identity()
        return model

    def _identified(self, context: ModelContext) -> IdentifiedModel | None:
        """For the response cache. None where any identity will do, because no other server looks into it."""
        cache = self.parts.services.cache
        if cache is None or not cache.is_shared:
            return None
        return IdentifiedModel(context.name, context.version, context.config, context.model_dir)

    def _tell_missing_cache(self, config: "ModelConfig") -> None:
        if config.response_cache.enable and self.parts.services.cache is None:
            self.parts.facts.log.warning(
                f"model '{self.model.name}' enables the response cache, and the server has none: every request is "
                "executed; give --cache-config, or remove response_cache"
            )

    def _prepare(
        self, model: ModelVersion, instances: Sequence[InstanceRunner], samples: Sequence[WarmupSample]
    ) -> None:
        """Instances that don't serve yet: listen to their health, and warm them up."""
        for runner in instances:
            runner.health_changed = partial(self._on_health, model, runner)
            if isinstance(runner.instance, MortalInstance):
                runner.instance.health_changed = runner.health_changed
            if runner.spec.passive:
                continue
            services = self.parts.services
            warm_up(runner.instance, model.config, samples, services.clock, self.parts.facts.log, services.stopping)

    def _on_health(self, model: ModelVersion, runner: InstanceRunner) -> None:
        model.health_changed(runner)
        self.parts.on_health(model)

    def _hold_folder(self) -> Callable[[], None]:
        """Keep the files for one more version; gives what lets them go."""
        self.hold()
        return self.release


def _end_all(*ends: Callable[[], None]) -> None:
    for end in ends:
        end()


def warn(log: Log, name: str, findings: Iterable[Finding]) -> None:
    """Errors are not logged here: they become the reason why the model is UNAVAILABLE."""
    for finding in findings:
        if not finding.is_error:
            log.warning(f"model '{name}': {finding}")
