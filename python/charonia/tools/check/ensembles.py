"""The models that the steps of an ensemble name, looked at for the rules between them and the ensemble."""

from collections.abc import Mapping, Sequence

from charonia.config.findings import Finding
from charonia.config.report import Report
from charonia.config.validate_steps import StepModel, check_steps_with_models
from charonia.repository.inspection import InspectionParts, ModelReading, inspect_version, read_model
from charonia.repository.scan import FoundModel


def ensemble_findings(
    reading: ModelReading, models: Mapping[str, FoundModel], parts: InspectionParts
) -> Sequence[Finding]:
    """What does not fit between an ensemble and the models of its steps; nothing for other models.

    Args:
        models: those of all repositories, by name.
    """
    config = reading.loaded.config
    if not config.HasField("ensemble_scheduling"):
        return ()
    report = Report(reading.loaded.places)
    check_steps_with_models(config, _needed(reading, models, parts), report)
    return report.findings


def _needed(reading: ModelReading, models: Mapping[str, FoundModel], parts: InspectionParts) -> dict[str, StepModel]:
    """The models of the steps, and of the steps of ensembles among them."""
    needed: dict[str, StepModel] = {}
    waiting = [reading.model.name]
    while waiting:
        name = waiting.pop()
        if name in models and name not in needed:
            needed[name] = _step_model(models[name], parts)
            waiting += [step.model_name for step in needed[name].config.ensemble_scheduling.step]
    return needed


def _step_model(model: FoundModel, parts: InspectionParts) -> StepModel:
    reading = read_model(model, parts.config)
    config = reading.loaded.config
    if reading.versions and config.backend:
        config = inspect_version(reading, reading.versions[-1], parts).config
    return StepModel(config, reading.versions or model.versions)
