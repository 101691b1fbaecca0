"""Which models the start loads, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charonia.core.log import Log
from charonia.engine.model import ModelVersion
from charonia.options import EVERY_MODEL, ServerOptions
from charonia.repository.directory import Directory
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.operations import ModelOperations
from charonia.repository.remarks import Remarks
from charonia.repository.repositories import duplicate_reason, missing_reason
from charonia.repository.scan import Scan
from charonia.repository.source import ModelSource, look_around, look_in
from charonia.repository.states import V


@dataclass(frozen=True, slots=True)
class StartReport:
    """What came of loading: by name, why a model that was asked for does not serve."""

    reasons: Mapping[str, str]

    @property
    def complete(self) -> bool:
        return not self.reasons

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.reasons)

    @property
    def failed(self) -> tuple[str, ...]:
        """A sentence for each."""
        return tuple(f"model '{name}': {reason}" for name, reason in self.reasons.items())


@dataclass(frozen=True, slots=True)
class StartParts:
    """What the start needs of the server."""

    options: ServerOptions
    lifecycle: ModelLifecycle[ModelVersion]
    operations: ModelOperations
    log: Log
    remarks: Remarks


def load_at_start(parts: StartParts) -> tuple[dict[str, ModelSource], StartReport]:
    """Load the models that the options ask for, and wait until each has been tried. Gives what was loaded from where.

    Raises:
        InvalidArgumentError: a repository can't be read.
        UnsupportedError: one that is not in the file system.
    """
    options = parts.options
    found, sources = look_around(options.model_repository)
    parts.remarks.warn(found.warnings)
    if not found.models and not found.duplicates:
        places = ", ".join(options.model_repository)
        parts.log.warning(f"no model in {places}: a repository has <model>/<version>/<file> for each model")
    wanted = wanted_models(options, found)
    unusable = unusable_models(found, wanted)
    for reason in unusable.values():
        parts.log.error(reason)
    parts.lifecycle.know(found.models, unusable, wanted)
    parts.operations.load_all([name for name in wanted if name in sources], look_in(sources))
    return sources, start_report(parts.lifecycle.directory, wanted)


def wanted_models(options: ServerOptions, found: Scan) -> list[str]:
    """The names to serve. Those that no repository has, or several have, are among them: they count as failed."""
    if options.model_control_mode != "explicit" or EVERY_MODEL in options.load_model:
        return sorted((*found.models, *found.duplicates))
    return list(dict.fromkeys(options.load_model))


def unusable_models(found: Scan, wanted: Sequence[str]) -> dict[str, str]:
    """Why names can't be served that are in several repositories, or are wanted and in none."""
    reasons = {name: duplicate_reason(name, places) for name, places in found.duplicates.items()}
    there = {**found.models, **found.duplicates}
    missing = (name for name in wanted if name not in there)
    return {**reasons, **{name: missing_reason(name, there) for name in missing}}


def start_report(models: Directory[V], wanted: Sequence[str]) -> StartReport:
    """Compare what serves with what was wanted."""
    reasons: dict[str, list[str]] = {}
    for entry in models.index():
        if entry.reason:
            reasons.setdefault(entry.name, []).append(entry.reason)
    missing = (name for name in wanted if name not in models.models or not models.models[name].serving)
    return StartReport({name: "; ".join(reasons.get(name, ["not loaded"])) for name in missing})
