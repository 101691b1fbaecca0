"""What a check found: plain records."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from charonia.config.findings import Finding
from charonia.tools.check.graph import Graph


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """A finding and whose it is.

    Attributes:
        model: "" for the repository itself.
        version: None when it is of no single version.
    """

    model: str
    version: int | None
    finding: Finding


@dataclass(frozen=True, slots=True)
class Load:
    """One version that was loaded and warmed up, or was tried; a failure is among the findings too."""

    model: str
    version: int
    is_loaded: bool
    seconds: float
    warmup_samples: int = 0


@dataclass(slots=True)
class Report:
    """Everything that was found.

    Attributes:
        models: by name, the versions that would be served.
        graphs: by name, of the ensembles.
        loads: what --load did, in order.
    """

    models: dict[str, tuple[int, ...]] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    _found: dict[str, list[ModelFinding]] = field(default_factory=dict)

    def add(self, model: str, findings: Iterable[Finding], version: int | None = None) -> None:
        """What several versions have in common, or two looks found, is kept once."""
        found = self._found.setdefault(model, [])
        known = {each.finding for each in found}
        for finding in findings:
            if finding not in known:
                known.add(finding)
                found.append(ModelFinding(model, version, finding))

    def rewrite(self, change: Callable[[Finding], Finding]) -> None:
        """Say all that was found in another way."""
        for found in self._found.values():
            found[:] = [replace(each, finding=change(each.finding)) for each in found]

    def of(self, model: str) -> list[ModelFinding]:
        """Errors first, each kind by place."""
        return sorted(self._found.get(model, ()), key=_order)

    @property
    def findings(self) -> list[ModelFinding]:
        """All of them: the repository's own first, then by model."""
        return [finding for name in sorted(self._found) for finding in self.of(name)]

    def count(self, *, errors: bool) -> int:
        return sum(each.finding.is_error is errors for found in self._found.values() for each in found)

    def is_broken(self, model: str) -> bool:
        return any(each.finding.is_error for each in self._found.get(model, ()))


def _order(each: ModelFinding) -> tuple[bool, str, int, int]:
    place = each.finding.place
    if place is None:
        return not each.finding.is_error, "", 0, 0
    return not each.finding.is_error, place.file, place.line or 0, place.column or 0
