"""The models of an ensemble's steps, as its configuration names them."""

from typing import TYPE_CHECKING

from charonia.core.model_id import ModelId
from charonia.core.request import ANY_VERSION

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelEnsembling


def steps_of(config: "ModelConfig") -> tuple[tuple[ModelId, int], ...]:
    """The model of each step with its version, or ANY_VERSION; () for what is no ensemble."""
    return tuple((model_of(step), version_of(step)) for step in config.ensemble_scheduling.step)


def model_of(step: "ModelEnsembling.Step") -> ModelId:
    """The step's model. The repository fills in its namespace, where there are any, as the ensemble is loaded."""
    return ModelId(step.model_name, step.model_namespace)


def version_of(step: "ModelEnsembling.Step") -> int:
    return step.model_version if step.model_version > 0 else ANY_VERSION


def step_names(config: "ModelConfig") -> tuple[ModelId, ...]:
    """Each model once."""
    return tuple(dict.fromkeys(name for name, _ in steps_of(config)))
