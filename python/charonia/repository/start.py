"""Which models the start loads, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.engine.model import ModelVersion
from charonia.options import EVERY_MODEL, ServerOptions
from charonia.repository.all_repositories import AllRepositories
from charonia.repository.directory import Directory
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.operations import ModelOperations
from charonia.repository.remarks import Remarks
from charonia.repository.repositories import duplicate_reason, missing_reason, of_name
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
    repositories: AllRepositories
    lifecycle: ModelLifecycle[ModelVersion]
    operations: ModelOperations
    log: Log
    remarks: Remarks


def load_at_start(parts: StartParts) -> tuple[dict[ModelId, ModelSource], StartReport]:
    """Load the models that the options ask for, and wait until each has been tried. Gives what was loaded from where.

    Raises:
        InvalidArgumentError: a repository can't be read.
        UnavailableError: one in a cloud can't be reached.
    """
    options = parts.options
    found, sources = look_around(parts.repositories)
    parts.remarks.warn(found.warnings)
    if not found.models and not found.duplicates:
        places = ", ".join(options.model_repository)
        parts.log.warning(f"no model in {places}: a repository has <model>/<version>/<file> for each model")
    wanted = wanted_models(options, found)
    unusable = unusable_models(found, wanted)
    for reason in unusable.values():
        parts.log.error(reason)
    parts.lifecycle.know(found.models, unusable, wanted)
    there = [model for model in wanted if model in sources]
    parts.repositories.read_configs(
        [each.remote for each in map(sources.__getitem__, there) if each.remote is not None]
    )
    parts.operations.load_all(there, look_in(sources))
    return sources, start_report(parts.lifecycle.directory, wanted)


def wanted_models(options: ServerOptions, found: Scan) -> list[ModelId]:
    """The models to serve. Those that no repository has, or several have, are among them: they count as failed."""
    there = sorted((*found.models, *found.duplicates))
    if options.model_control_mode != "explicit" or EVERY_MODEL in options.load_model:
        return there
    return [model for name in dict.fromkeys(options.load_model) for model in of_name(name, there)]


def unusable_models(found: Scan, wanted: Sequence[ModelId]) -> dict[ModelId, str]:
    """Why names can't be served that are in several repositories, or are wanted and in none."""
    reasons = {name: duplicate_reason(name, places) for name, places in found.duplicates.items()}
    there = {**found.models, **found.duplicates}
    missing = (name for name in wanted if name not in there)
    return {**reasons, **{name: missing_reason(name, there) for name in missing}}


def start_report(models: Directory[V], wanted: Sequence[ModelId]) -> StartReport:
    """Compare what serves with what was wanted."""
    reasons: dict[ModelId, list[str]] = {}
    for entry in models.index():
        if entry.reason:
            reasons.setdefault(entry.id, []).append(entry.reason)
    missing = (name for name in wanted if name not in models.models or not models.models[name].serving)
    return StartReport({name: "; ".join(reasons.get(name, ["not loaded"])) for name in missing})
