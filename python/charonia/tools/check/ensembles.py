"""The models that the steps of an ensemble name, looked at for the rules between them and the ensemble."""

from collections.abc import Mapping, Sequence

from charonia.config.findings import Finding
from charonia.config.report import Report
from charonia.config.steps import step_names
from charonia.config.validate_steps import StepModel, check_steps_with_models
from charonia.core.model_id import ModelId
from charonia.repository.inspection import InspectionParts, ModelReading, inspect_version, read_model
from charonia.repository.namespaces import resolve_steps
from charonia.repository.scan import FoundModel
from charonia.tools.check.batches import check_batches
from charonia.tools.check.graph import Graph, graph_of


def look_at_steps(
    reading: ModelReading, models: Mapping[ModelId, FoundModel], parts: InspectionParts
) -> tuple[Sequence[Finding], Graph]:
    """What does not fit between an ensemble and the models of its steps, and how they hang together.

    Args:
        models: those of all repositories.
    """
    config, report = reading.loaded.config, Report(reading.loaded.places)
    needed = _needed(reading, models, parts)
    check_steps_with_models(reading.model.id, config, needed, models, report)
    if not report.findings:
        check_batches(config, needed, report)
    return report.findings, graph_of(config, needed)


def _needed(
    reading: ModelReading, models: Mapping[ModelId, FoundModel], parts: InspectionParts
) -> dict[ModelId, StepModel]:
    """The models of the steps, and of the steps of ensembles among them."""
    needed: dict[ModelId, StepModel] = {}
    waiting = [reading.model.id]
    while waiting:
        name = waiting.pop()
        if name in models and name not in needed:
            needed[name] = _step_model(models[name], parts)
            resolve_steps(needed[name].config, name, models)
            waiting += step_names(needed[name].config)
    return needed


def _step_model(model: FoundModel, parts: InspectionParts) -> StepModel:
    reading = read_model(model, parts.config)
    config = reading.loaded.config
    if reading.versions and config.backend:
        config = inspect_version(reading, reading.versions[-1], parts).config
    return StepModel(config, reading.versions or model.versions)
