"""Plans the loads of models: reads their configurations, and shares the cores out among their instances."""

import threading
from collections.abc import Mapping
from dataclasses import replace

from charonia.backends.placement import share_of_cores
from charonia.config.findings import ConfigError
from charonia.core.errors import CharoniaError
from charonia.repository.ensemble_load import EnsembleLoad
from charonia.repository.inspection import read_model
from charonia.repository.model_load import LoaderParts, ModelLoad, warn
from charonia.repository.source import ModelSource
from charonia.repository.turns import Turn

Planned = ModelLoad | CharoniaError
"""The plan of a model, or why it can't be loaded."""


class ModelLoader:
    """Plans the loads of one server."""

    def __init__(self, parts: LoaderParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._instances: dict[str, int] = {}
        self._shares: tuple[int, int] = (0, 0)

    def plan(self, source: ModelSource, before: ModelLoad | None, turn: Turn) -> Planned:
        """Read the configuration.

        Args:
            before: what the model that serves was loaded by.
            turn: of the operation that loads it.
        """
        reading = read_model(source.found, replace(self._parts.config, override_json=source.config_json))
        if (error := reading.error) is not None:
            return error
        kind = EnsembleLoad if reading.loaded.config.HasField("ensemble_scheduling") else ModelLoad
        return kind(self._parts.about(source.name), reading, source, before.bare() if before else None, turn)

    def begin(self, plans: Mapping[str, Planned]) -> None:
        """These are about to be loaded: share the cores out among the instances of these and of all other models."""
        for name, plan in plans.items():
            self._warn(name, plan)
        ready = [plan for plan in plans.values() if isinstance(plan, ModelLoad)]
        with self._lock:
            for plan in ready:
                self._instances[plan.model.name] = plan.instances
            threads = self._share() if ready else 0
        for plan in ready:
            plan.cpu_threads = threads

    def keep(self, name: str, served: ModelLoad | None) -> None:
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

    def _warn(self, name: str, plan: Planned) -> None:
        """What lies in the wrong place is part of the error where there is one."""
        log = self._parts.about(name).facts.log
        if isinstance(plan, ModelLoad):
            warn(log, name, (*plan.source.found.warnings, *plan.reading.findings))
        elif isinstance(plan, ConfigError):
            warn(log, name, plan.findings)
