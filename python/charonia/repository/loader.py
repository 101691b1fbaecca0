"""Plans the loads of models: reads their configurations, and shares the cores out among their instances."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from charonia.backends.placement import share_of_cores
from charonia.config.findings import ConfigError
from charonia.core.errors import CharoniaError
from charonia.core.model_id import ModelId
from charonia.repository.agent_reading import AgentReading, read_with_agents
from charonia.repository.ensemble_load import EnsembleLoad
from charonia.repository.inspection import read_model
from charonia.repository.model_load import LoaderParts, ModelLoad, warn
from charonia.repository.namespaces import resolve_steps, resolved
from charonia.repository.source import ModelSource
from charonia.repository.temporary import told_at_home
from charonia.repository.turns import Turn

Planned = ModelLoad | CharoniaError
"""The plan of a model, or why it can't be loaded."""


class ModelLoader:
    """Plans the loads of one server."""

    def __init__(self, parts: LoaderParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._instances: dict[ModelId, int] = {}
        self._shares: tuple[int, int] = (0, 0)

    def plan(self, source: ModelSource, before: ModelLoad | None, turn: Turn) -> Planned:
        """Read the configuration.

        Args:
            before: what the model that serves was loaded by.
            turn: of the operation that loads it.
        """
        try:
            folder = source.open()
        except CharoniaError as error:
            return error
        found = source.found if folder is None else replace(source.found, path=folder.path)
        parts = self._parts.about(source.id)
        options = replace(parts.config, override_json=source.config_json)
        prepared = AgentReading(read_model(found, options))
        wrong: CharoniaError | None = None
        if prepared.reading.wants_agents and source.id in turn.names:  # else it is looked at again in its turn
            try:
                prepared = read_with_agents(parts, prepared.reading, source, folder, before, options)
            except CharoniaError as refusal:
                wrong = refusal
        if (wrong := wrong or prepared.reading.error) is not None:
            prepared.release()
            if folder is None:
                return wrong
            folder.release()
            return told_at_home(wrong, folder)
        config = prepared.reading.loaded.config
        resolve_steps(config, source.id, self._there())
        kind = EnsembleLoad if config.HasField("ensemble_scheduling") else ModelLoad
        known = before.bare() if before else None
        return kind(parts, prepared.reading, source, known, turn, folder=folder, agents=prepared.run)

    def stop(self) -> None:
        """The server stops: nobody waits for an agent that prepares a model any more."""
        self._parts.agents.stop()

    def resolved(self, ensemble: ModelId, steps: Sequence[ModelId]) -> tuple[ModelId, ...]:
        """The models of an ensemble's steps, as the repositories are now."""
        there = self._there()
        return tuple(resolved(step, ensemble, there) for step in steps)

    def _there(self) -> Collection[ModelId]:
        return [model for model, view in self._parts.models().models.items() if view.entries]

    def begin(self, plans: Mapping[ModelId, Planned]) -> None:
        """These are about to be loaded: share the cores out among the instances of these and of all other models."""
        for name, plan in plans.items():
            self._warn(name, plan)
        ready = [plan for plan in plans.values() if isinstance(plan, ModelLoad)]
        with self._lock:
            for plan in ready:
                self._instances[plan.source.id] = plan.instances
            threads = self._share() if ready else 0
        for plan in ready:
            plan.cpu_threads = threads

    def keep(self, name: ModelId, served: ModelLoad | None) -> None:
        """Only what serves of the model needs cores: after a load that failed, what was loaded before."""
        with self._lock:
            if served is not None:
                self._instances[name] = served.instances
            else:
                self._instances.pop(name, None)

    def _share(self) -> int:
        """CPU threads for each instance as it is now; told when the number of instances has changed."""
        total = sum(self._instances.values())
        if total != self._shares[0]:
            self._shares = (total, share_of_cores(self._parts.devices, total, self._parts.facts.log))
        return self._shares[1]

    def _warn(self, name: ModelId, plan: Planned) -> None:
        """What lies in the wrong place is part of the error where there is one."""
        log = self._parts.about(name).facts.log
        if isinstance(plan, ModelLoad):
            warn(log, name, (*plan.source.found.warnings, *plan.at_home(plan.reading.findings)))
        elif isinstance(plan, ConfigError):
            warn(log, name, plan.findings)
