"""Which models the start loads, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charonia.core.request import ANY_VERSION
from charonia.options import EVERY_MODEL, ServerOptions
from charonia.repository.directory import Directory
from charonia.repository.scan import Scan
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


def wanted_models(options: ServerOptions, found: Scan) -> list[str]:
    """The names to serve. Those that no repository has, or several have, are among them: they count as failed."""
    if options.model_control_mode == "none" or EVERY_MODEL in options.load_model:
        return sorted((*found.models, *found.duplicates))
    return list(dict.fromkeys(options.load_model))


def unusable_models(found: Scan, wanted: Sequence[str]) -> dict[str, str]:
    """Why names can't be served that are in several repositories, or are wanted and in none."""
    reasons = {
        name: f"model appears in two or more repositories: '{name}' is in {', '.join(places)}"
        for name, places in found.duplicates.items()
    }
    there = ", ".join((*found.models, *found.duplicates)) or "none"
    for name in wanted:
        if name not in found.models and name not in found.duplicates:
            reasons[name] = f"model '{name}' is in no repository; there are: {there}"
    return reasons


def start_report(models: Directory[V], wanted: Sequence[str]) -> StartReport:
    """Compare what serves with what was wanted."""
    reasons: dict[str, list[str]] = {}
    for entry in models.index():
        if entry.reason:
            reasons.setdefault(entry.name, []).append(entry.reason)
    missing = (name for name in wanted if (name, ANY_VERSION) not in models.serving)
    return StartReport({name: "; ".join(reasons.get(name, ["not loaded"])) for name in missing})
