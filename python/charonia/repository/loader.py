"""From a model folder to a model version that serves: read the config, complete it, load, make instances, warm up."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from charonia.backends.base import Backend, ModelContext, MortalInstance, ServerFacts
from charonia.backends.placement import Devices, instance_count, place, share_of_cores
from charonia.backends.registry import BackendRegistry
from charonia.backends.warmup import warm_up, warmup_samples
from charonia.config.findings import Finding
from charonia.config.model_config import ConfigOptions, LoadedConfig, finish_config, load_config
from charonia.core.errors import CharoniaError, InvalidArgumentError, UnsupportedError
from charonia.core.log import Log
from charonia.core.protocols import Bell
from charonia.engine.model import ModelServices, ModelVersion
from charonia.repository.labels import read_labels
from charonia.repository.lifecycle import Plans
from charonia.repository.scan import FoundModel
from charonia.repository.versions import choose_versions

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

NewBell = Callable[[], tuple[Bell, int]]
"""Gives the bell of one model version, and its route."""

# How long the instances of a model whose warm-up failed may take to end.
_DISCARD_S = 5.0


@dataclass(frozen=True, slots=True)
class LoaderParts:
    """What loading needs of the server.

    Attributes:
        devices: what instances may run on.
        services: what every model version shares.
        facts: the settings that backends see.
        config: how configs are read.
        on_health: told when an instance went down, came back, or was given up; from any thread, so it must not block.
    """

    registry: BackendRegistry
    devices: Devices
    services: ModelServices
    facts: ServerFacts
    config: ConfigOptions
    new_bell: NewBell
    on_health: Callable[[ModelVersion], None]

    def about(self, model: str) -> "LoaderParts":
        """The same parts, with the log for lines about one model."""
        log = self.facts.log.about(model)
        return replace(self, facts=replace(self.facts, log=log), services=replace(self.services, log=log))


def failure_of(model: ModelVersion) -> str | None:
    """Why an instance of the model was given up, None when none was."""
    instances = (runner.instance for runner in model.instances)
    return next((each.failure for each in instances if isinstance(each, MortalInstance) and each.failure), None)


class ModelLoader:
    """Plans the loads of one server."""

    def __init__(self, parts: LoaderParts) -> None:
        self._parts = parts
        self._instances: dict[str, int] = {}

    def plan(self, models: Sequence[FoundModel]) -> Plans[ModelVersion]:
        """Read all configs, then share the cores out among the instances of these and of all earlier models."""
        plans: dict[str, ModelLoad | CharoniaError] = {model.name: self._plan(model) for model in models}
        ready = [plan for plan in plans.values() if isinstance(plan, ModelLoad)]
        for plan in ready:
            count = instance_count(plan.loaded.config, self._parts.devices) * len(plan.versions)
            self._instances[plan.model.name] = count
        if ready:
            threads = share_of_cores(self._parts.devices, sum(self._instances.values()), self._parts.facts.log)
            for plan in ready:
                plan.cpu_threads = threads
        return plans

    def _plan(self, model: FoundModel) -> "ModelLoad | CharoniaError":
        parts = self._parts.about(model.name)
        log = parts.facts.log
        loaded = load_config(model.path, model.name, self._parts.config)
        _warn(log, model.name, loaded.findings)
        try:
            _refuse_without_versions(model)
            loaded.raise_on_errors()
            _refuse_what_comes_later(loaded.config)
            choice = choose_versions(loaded.config, model.versions)
        except CharoniaError as error:
            return error
        for missing in choice.missing:
            log.error(f"model '{model.name}': version {missing} is asked for by the version policy and has no folder")
        return ModelLoad(parts, model, loaded, choice.versions)


@dataclass(slots=True)
class ModelLoad:
    """The plan of one model; implements `repository.lifecycle.ModelPlan`."""

    parts: LoaderParts
    model: FoundModel
    loaded: LoadedConfig
    versions: tuple[int, ...]
    cpu_threads: int = 1

    def load(self, version: int) -> ModelVersion:
        """Raises CharoniaError with the reason, having freed everything."""
        parts, started_ns = self.parts, self.parts.services.clock.now_ns()
        backend = parts.registry.get(self.loaded.config.backend)
        context = self._context(version, self.loaded.config)
        if parts.facts.auto_complete:
            context = replace(context, config=backend.complete_config(context))
        finished = finish_config(self.loaded, context.config, parts.config)
        self._report(finished)
        model = self._make(backend, replace(context, config=finished.config))
        model.statistics.load_duration_ns = parts.services.clock.now_ns() - started_ns
        model.start()
        return model

    def _context(self, version: int, config: "ModelConfig") -> ModelContext:
        model = self.model
        settings = self.parts.registry.config_for(config.backend)
        folder = model.path / str(version)
        places = self.loaded.places
        return ModelContext(model.name, version, config, model.path, folder, settings, self.parts.facts, places)

    def _report(self, finished: LoadedConfig) -> None:
        log = self.parts.facts.log
        for completion in finished.completions:
            log.verbose(f"model '{self.model.name}': filled in {completion}")
        _warn(log, self.model.name, [each for each in finished.findings if each not in self.loaded.findings])
        finished.raise_on_errors()

    def _make(self, backend: Backend, context: ModelContext) -> ModelVersion:
        """Load the model, make its instances, warm them up. The cheap checks come first."""
        parts, config = self.parts, context.config
        specs = place(config, parts.devices, self.cpu_threads, parts.facts.log)
        labels = read_labels(config, context.model_dir)
        samples = warmup_samples(config, context.model_dir)
        bell, route = parts.new_bell()
        model = ModelVersion(
            context.name, context.version, config, labels, backend.load(context), specs, bell, route, parts.services
        )
        try:
            for runner in model.instances:
                if isinstance(runner.instance, MortalInstance):
                    runner.instance.health_changed = partial(parts.on_health, model)
                warm_up(runner.instance, config, samples, parts.services.clock, parts.facts.log)
        except BaseException:
            model.stop(_DISCARD_S)
            raise
        return model


def _warn(log: Log, name: str, findings: Iterable[Finding]) -> None:
    """Errors are not logged here: they become the reason why the model is UNAVAILABLE."""
    for finding in findings:
        if not finding.is_error:
            log.warning(f"model '{name}': {finding}")


def _refuse_without_versions(model: FoundModel) -> None:
    """What the scan found in its place is the better reason than that there is no version."""
    if not model.versions and model.warnings:
        raise InvalidArgumentError(
            f"at least one version must be available under the version policy of model '{model.name}': "
            f"{'; '.join(map(str, model.warnings))}"
        )


def _refuse_what_comes_later(config: "ModelConfig") -> None:
    for section in ("ensemble_scheduling", "sequence_batching"):
        if config.HasField(section):
            raise UnsupportedError(
                f"model '{config.name}' needs {section}, which this version of Charonia does not serve yet"
            )
