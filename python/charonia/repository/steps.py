"""The steps of an ensemble as it is loaded: the models that serve just now, and what the ensemble gets from them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from charonia.config.model_config import LoadedConfig
from charonia.config.report import Report
from charonia.config.steps import step_names, steps_of
from charonia.config.validate_steps import StepModel, check_steps_with_models, is_decoupled
from charonia.core.model_id import ModelId
from charonia.core.text import in_one_line
from charonia.engine.model import ModelVersion
from charonia.repository.directory import Directory
from charonia.repository.labels import read_labels

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

Models = Directory[ModelVersion]


def fitted(ensemble: ModelId, loaded: LoadedConfig, models: Models) -> LoadedConfig:
    """The ensemble's configuration as its steps complete it, with what does not fit to them among the findings."""
    config = type(loaded.config)()
    config.CopyFrom(loaded.config)
    report = Report(loaded.places)
    steps = _step_models(config, models)
    why_not = {name: _why_absent(name, models) for name in step_names(config) if name not in steps}
    names = [name for name, model in models.named.items() if model.entries]
    check_steps_with_models(ensemble, config, steps, names, report, why_not)
    config.model_transaction_policy.decoupled = is_decoupled(config, steps)
    return replace(loaded, config=config, findings=(*loaded.findings, *report.findings))


def labels_of(config: "ModelConfig", model_dir: Path, models: Models) -> Mapping[str, Sequence[str]]:
    """The ensemble's own labels, and for outputs without a file of their own those of the step that makes them.

    Raises:
        InvalidArgumentError: a file that can't be read.
        CharoniaError: a step does not serve.
    """
    made: dict[str, Sequence[str]] = {}
    for step, where in zip(config.ensemble_scheduling.step, steps_of(config), strict=True):
        labels = models.find(*where).labels
        made |= {tensor: labels[output] for output, tensor in step.output_map.items() if output in labels}
    outputs = {output.name for output in config.output}
    return {name: labels for name, labels in made.items() if name in outputs} | dict(read_labels(config, model_dir))


def _step_models(config: "ModelConfig", models: Models) -> dict[ModelId, StepModel]:
    """Those that serve, also of the ensembles among them, by id."""
    found: dict[ModelId, StepModel] = {}
    names = list(step_names(config))
    for name in names:  # grows meanwhile
        served = models.named[name].versions if name in models.named else ()
        if served and name not in found:
            found[name] = StepModel(served[-1].config, tuple(each.version for each in served))
            names += step_names(served[-1].config)
    return found


def _why_absent(name: ModelId, models: Models) -> str:
    model = models.named.get(name)
    if model is None or not model.entries:
        return "no repository of this server has it"
    reasons = [in_one_line(entry.reason) for entry in model.entries if entry.reason]
    return "; ".join(reasons) or "it is not loaded"
