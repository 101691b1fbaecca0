"""The graph of an ensemble: which steps run when, and what flows between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charonia.config.model_tensor import OPEN
from charonia.config.schema import ModelConfig, ModelEnsembling, ModelInput, ModelOutput
from charonia.config.steps import model_of
from charonia.config.validate_steps import StepModel, is_decoupled
from charonia.core.datatypes import BY_NUMBER
from charonia.core.model_id import ModelId


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor of the ensemble, as it is written.

    Attributes:
        datatype: as the protocol names it; "" where nobody says.
        shape: with the batch dimension if there is one; None where nobody says.
    """

    name: str
    datatype: str = ""
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class GraphStep:
    """One step.

    Attributes:
        number: its place in the configuration, from 1.
        version: None for the version that the model's policy prefers.
        decoupled: whether it may answer any number of times, and what follows it runs for each answer.
        inputs, outputs: by the model's name for it, the ensemble's tensor; in the order of the model's configuration.
    """

    number: int
    model: str
    version: int | None
    decoupled: bool
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Graph:
    """An ensemble.

    Attributes:
        inputs, outputs: names of tensors.
        stages: steps in the order in which they run; those of one stage run side by side. A step waits for its own
            inputs only, so it may begin before all of the stage before have ended.
        flows: by name, all tensors.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    stages: Sequence[Sequence[GraphStep]]
    flows: Mapping[str, Flow]


def graph_of(config: ModelConfig, models: Mapping[ModelId, StepModel]) -> Graph:
    """Steps that wait for what nobody writes are left out: the findings say so."""
    flows = {io.name: _flow(io.name, io, config) for io in config.input}
    told = {io.name: _flow(io.name, io, config) for io in config.output}
    stages: list[Sequence[GraphStep]] = []
    ready = {io.name for io in config.input}
    waiting = dict(enumerate(config.ensemble_scheduling.step, 1))
    while numbers := [n for n, step in waiting.items() if all(name in ready for name in step.input_map.values())]:
        steps = [(number, waiting.pop(number)) for number in numbers]
        for _, step in steps:
            ready.update(step.output_map.values())
            for name, flow in _written(step, models).items():
                flows.setdefault(name, told.get(name, flow))
        stages.append([_step(number, step, config, models) for number, step in steps])
    return Graph([io.name for io in config.input], list(told), stages, {**flows, **told})


def _step(
    number: int, step: ModelEnsembling.Step, config: ModelConfig, models: Mapping[ModelId, StepModel]
) -> GraphStep:
    model = models[model_of(step)].config if model_of(step) in models else ModelConfig()
    alone = ModelConfig(name=config.name)
    alone.ensemble_scheduling.step.append(step)
    return GraphStep(
        number,
        step.model_name,
        step.model_version if step.model_version > 0 else None,
        is_decoupled(alone, models),
        _in_order(step.input_map, model.input),
        _in_order(step.output_map, model.output),
    )


def _in_order(mapped: Mapping[str, str], ios: Sequence[ModelInput] | Sequence[ModelOutput]) -> Mapping[str, str]:
    names = [io.name for io in ios if io.name in mapped]
    return {name: mapped[name] for name in (*names, *sorted(set(mapped) - set(names)))}


def _written(step: ModelEnsembling.Step, models: Mapping[ModelId, StepModel]) -> Mapping[str, Flow]:
    model = models[model_of(step)].config if model_of(step) in models else ModelConfig()
    outputs = {io.name: io for io in model.output}
    return {
        tensor: _flow(tensor, outputs[name], model) if name in outputs else Flow(tensor)
        for name, tensor in _in_order(step.output_map, model.output).items()
    }


def _flow(name: str, io: ModelInput | ModelOutput, config: ModelConfig) -> Flow:
    datatype = BY_NUMBER.get(io.data_type)
    batch = (OPEN,) if config.max_batch_size > 0 else ()
    return Flow(name, datatype.name if datatype is not None else "", (*batch, *io.dims))
