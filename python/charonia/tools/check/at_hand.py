"""The models of repositories in clouds, brought here to be looked at: what a server would download, and no more."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from charonia.config.findings import Finding, Severity
from charonia.core.errors import CharoniaError
from charonia.core.log import SilentLog
from charonia.core.model_id import ModelId
from charonia.repository.inspection import InspectionParts, read_model
from charonia.repository.namespaces import resolve_steps
from charonia.repository.scan import FoundModel
from charonia.repository.source import ModelSource
from charonia.repository.temporary import TemporaryFolder, findings_at_home
from charonia.tools.check.report import Report


@dataclass(slots=True)
class AtHand:
    """Models that can be looked at, by id, and the folders that hold what is not in the file system by itself."""

    models: dict[ModelId, FoundModel]
    folders: list[TemporaryFolder]

    def at_home(self, finding: Finding) -> Finding:
        """With places that the user knows."""
        for folder in self.folders:
            (finding,) = findings_at_home([finding], folder)
        return finding


@contextmanager
def brought(
    wanted: list[ModelId], sources: Mapping[ModelId, ModelSource], parts: InspectionParts, report: Report
) -> Iterator[AtHand]:
    """`wanted` and the models of ensembles among them; the others too, as far as they are in the file system.

    Args:
        report: gets why a model can't be brought.
    """
    at_hand = AtHand({model: source.found for model, source in sources.items()}, [])
    waiting = list(wanted)
    try:
        for model in waiting:  # grows meanwhile
            if model in sources:
                try:
                    _bring(sources[model], at_hand, parts)
                except CharoniaError as error:
                    report.add(model, [Finding(Severity.ERROR, "", None, str(error))])
                config = read_model(at_hand.models[model], parts.config).loaded.config
                resolve_steps(config, model, sources)
                steps = (ModelId(s.model_name, s.model_namespace) for s in config.ensemble_scheduling.step)
                waiting += [step for step in steps if step not in waiting]
        yield at_hand
        report.rewrite(at_hand.at_home)
    finally:
        for folder in at_hand.folders:
            folder.release()


def _bring(source: ModelSource, at_hand: AtHand, parts: InspectionParts) -> None:
    folder = source.open()
    if folder is None:
        return
    at_hand.folders.append(folder)
    found = at_hand.models[source.id] = replace(source.found, path=folder.path)
    folder.bring_shared(SilentLog())
    reading = read_model(found, parts.config)
    for version in found.versions if reading.wants_agents else reading.versions:
        folder.bring(version, SilentLog())
