"""Which model the step of an ensemble means, where several repositories may hold one of its name."""

from collections.abc import Collection

from charonia.config.schema import ModelConfig
from charonia.core.model_id import ModelId


def resolved(step: ModelId, ensemble: ModelId, there: Collection[ModelId]) -> ModelId:
    """The model for a step: the one of the ensemble's own namespace, else the only one of its name.

    Args:
        step: as it is written or was resolved before; only its name counts.
        there: the models of all repositories.

    Returns:
        The model of the ensemble's own namespace too where there is none, or where others have one each: then the
        ensemble lacks it.
    """
    own = ModelId(step.name, ensemble.namespace)
    if own in there:
        return own
    same = [model for model in there if model.name == step.name]
    return same[0] if len(same) == 1 else own


def resolve_steps(config: ModelConfig, ensemble: ModelId, there: Collection[ModelId]) -> None:
    """Write the namespace of each step's model into the configuration of an ensemble."""
    for step in config.ensemble_scheduling.step:
        step.model_namespace = resolved(ModelId(step.model_name), ensemble, there).namespace
