"""From a model folder to a model version that serves: read the config, complete it, load, make instances, warm up."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from charonia.backends.base import Backend, ModelContext, MortalInstance
from charonia.backends.instance import InstanceRunner
from charonia.backends.placement import instance_count, place, share_of_cores
from charonia.backends.warmup import WarmupSample, warm_up, warmup_samples
from charonia.config.announce import log_completed
from charonia.config.findings import Finding
from charonia.config.model_config import LoadedConfig, finish_config
from charonia.core.errors import CharoniaError
from charonia.core.log import Log
from charonia.core.protocols import Bell
from charonia.engine.model import ModelServices, ModelVersion
from charonia.engine.update import InstanceUpdate
from charonia.repository.inspection import (
    InspectionParts,
    ModelReading,
    explained,
    inspect_version,
    model_context,
    read_model,
)
from charonia.repository.labels import read_labels
from charonia.repository.plans import Change
from charonia.repository.scan import FoundModel
from charonia.repository.source import ModelSource, change_between, with_new_instances
from charonia.scheduling.state import state_store

NewBell = Callable[[], tuple[Bell, int]]
"""Gives the bell of one model version, and its route."""

# How long the instances of a model whose warm-up failed may take to end.
_DISCARD_S = 5.0
_NONE_BEFORE: Mapping[str, "ModelLoad"] = {}


@dataclass(frozen=True, slots=True)
class LoaderParts(InspectionParts):
    """What loading needs of the server.

    Attributes:
        services: what every model version shares.
        on_health: told when an instance went down, came back, or was given up; from any thread, so it must not block.
    """

    services: ModelServices
    new_bell: NewBell
    on_health: Callable[[ModelVersion], None]

    def about(self, model: str) -> "LoaderParts":
        """The same parts, with the log for lines about one model."""
        log = self.facts.log.about(model)
        return replace(self, facts=replace(self.facts, log=log), services=replace(self.services, log=log))


class ModelLoader:
    """Plans the loads of one server."""

    def __init__(self, parts: LoaderParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._instances: dict[str, int] = {}
        self._shares: tuple[int, int] = (0, 0)

    def plan(
        self, sources: Sequence[ModelSource], before: Mapping[str, "ModelLoad"] = _NONE_BEFORE
    ) -> "dict[str, ModelLoad | CharoniaError]":
        """Read all configs, then share the cores out among the instances of these and of all other models.

        Args:
            before: by name, what the models that serve were loaded by.
        """
        plans = {source.name: self._plan(source, before.get(source.name)) for source in sources}
        ready = [plan for plan in plans.values() if isinstance(plan, ModelLoad)]
        with self._lock:
            for plan in ready:
                self._instances[plan.model.name] = self._count(plan)
            threads = self._share() if ready else 0
        for plan in ready:
            plan.cpu_threads = threads
        return plans

    def _share(self) -> int:
        """CPU threads for each instance as it is now; told when the number of instances has changed."""
        total = sum(self._instances.values())
        if total != self._shares[0]:
            self._shares = (total, share_of_cores(self._parts.devices, total, self._parts.facts.log))
        return self._shares[1]

    def keep(self, name: str, served: "ModelLoad | None") -> None:
        """Only what serves of the model needs cores: after a load that failed, what was loaded before."""
        with self._lock:
            if served is not None:
                self._instances[name] = self._count(served)
            else:
                self._instances.pop(name, None)

    def _count(self, plan: "ModelLoad") -> int:
        return instance_count(plan.loaded.config, self._parts.devices) * len(plan.versions)

    def _plan(self, source: ModelSource, before: "ModelLoad | None") -> "ModelLoad | CharoniaError":
        reading = read_model(source.found, replace(self._parts.config, override_json=source.config_json))
        parts = self._parts.about(source.name)
        log, error = parts.facts.log, reading.error
        # What lies in the wrong place is part of the error where there is one.
        _warn(log, source.name, reading.findings if error is not None else (*source.found.warnings, *reading.findings))
        return error or ModelLoad(parts, reading, source, before.bare() if before else None)


@dataclass(slots=True)
class ModelLoad:
    """The plan of one model; implements `repository.plans.ModelPlan`."""

    parts: LoaderParts
    reading: ModelReading
    source: ModelSource
    before: "ModelLoad | None" = None
    cpu_threads: int = 1

    def bare(self) -> "ModelLoad":
        """Without what was before it: a model that is loaded again and again has no endless history."""
        return replace(self, before=None)

    @property
    def model(self) -> FoundModel:
        return self.reading.model

    @property
    def loaded(self) -> LoadedConfig:
        return self.reading.loaded

    @property
    def versions(self) -> tuple[int, ...]:
        return self.reading.versions

    def change(self, version: int, served: ModelVersion) -> Change:
        """What a version that serves needs, to be as this plan says."""
        before = self.before
        if before is None:
            return Change.LOAD
        known = (before.loaded.config, served.config)
        return change_between(before.source, self.source, version, known, self.loaded.config)

    def update(self, version: int, served: ModelVersion) -> InstanceUpdate:
        """Prepare other instances for a version that serves. Raises CharoniaError with the reason."""
        parts = self.parts
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
        try:
            return self._load(version)
        except CharoniaError as error:
            raise explained(error, lambda: inspect_version(self.reading, version, self.parts)) from error

    def _load(self, version: int) -> ModelVersion:
        parts, started_ns = self.parts, self.parts.services.clock.now_ns()
        backend = parts.registry.get(self.loaded.config.backend)
        context = model_context(self.reading, version, self.loaded.config, self.parts)
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
        _warn(log, self.model.name, [each for each in finished.findings if each not in self.loaded.findings])
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
        bell, route = parts.new_bell()
        model = ModelVersion(
            context.name,
            context.version,
            config,
            labels,
            backend.load(context),
            specs,
            bell,
            route,
            parts.services,
            self._hold_folder(),
            states,
        )
        try:
            self._prepare(model, model.instances, samples)
        except BaseException:
            model.stop(_DISCARD_S)
            raise
        return model

    def _prepare(
        self, model: ModelVersion, instances: Sequence[InstanceRunner], samples: Sequence[WarmupSample]
    ) -> None:
        """Instances that don't serve yet: listen to their health, and warm them up."""
        for runner in instances:
            if isinstance(runner.instance, MortalInstance):
                runner.instance.health_changed = partial(self.parts.on_health, model)
            services = self.parts.services
            warm_up(runner.instance, model.config, samples, services.clock, self.parts.facts.log, services.stopping)

    def _hold_folder(self) -> Callable[[], None]:
        """Keep the files of a load request for one more version; gives what lets them go."""
        folder = self.source.folder
        if folder is None:
            return lambda: None
        folder.hold()
        return folder.release


def _warn(log: Log, name: str, findings: Iterable[Finding]) -> None:
    """Errors are not logged here: they become the reason why the model is UNAVAILABLE."""
    for finding in findings:
        if not finding.is_error:
            log.warning(f"model '{name}': {finding}")
