"""The models of an ensemble's steps, as its configuration names them."""

from typing import TYPE_CHECKING

from charonia.core.request import ANY_VERSION

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelEnsembling


def steps_of(config: "ModelConfig") -> tuple[tuple[str, int], ...]:
    """The model of each step with its version, or ANY_VERSION, as they are written; () for what is no ensemble."""
    return tuple((step.model_name, version_of(step)) for step in config.ensemble_scheduling.step)


def version_of(step: "ModelEnsembling.Step") -> int:
    return step.model_version if step.model_version > 0 else ANY_VERSION


def step_names(config: "ModelConfig") -> tuple[str, ...]:
    """Each model once."""
    return tuple(dict.fromkeys(name for name, _ in steps_of(config)))
