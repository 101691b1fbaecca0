"""An ensemble's graph, compiled: which steps a request needs, what feeds each of them, and what comes out.

Decoupled steps divide the graph into regions, one behind the other. Region 0 runs once for a request; what follows a
decoupled step runs once for each of its responses. No step reads tensors of two regions: the load sees to it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from charonia.config.io import Dims, InputSpec, OutputSpec, io_specs
from charonia.config.steps import model_of, steps_of, version_of
from charonia.core.errors import CharoniaError, NotFoundError
from charonia.core.request import ANY_VERSION
from charonia.core.reshape import Reshape

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelEnsembling

    Step = ModelEnsembling.Step

# Clients that name outputs in ever new orders must not fill the memory.
_KEPT_PLANS = 64


class StepModel(Protocol):
    """What is asked of the model of a step."""

    @property
    def config(self) -> "ModelConfig": ...
    @property
    def inputs(self) -> Sequence[InputSpec]: ...
    @property
    def decoupled(self) -> bool: ...
    @property
    def route(self) -> int: ...
    @property
    def has_sequences(self) -> bool: ...
    @property
    def live_instances(self) -> int: ...
    def end_sequence(self, correlation_id: int | str) -> None: ...
    def cache_identity(self) -> bytes | None: ...


class StepModels(Protocol):
    """The models at one moment; another object when something has changed."""

    def find(self, name: str, version: int = ANY_VERSION, /) -> StepModel:
        """Raises CharoniaError where the version does not serve."""


class NoModels:
    """Where nothing is served."""

    def find(self, name: str, version: int = ANY_VERSION, /) -> StepModel:
        raise NotFoundError(f"model '{name}' is not served")


@dataclass(frozen=True, slots=True)
class Fit:
    """How a tensor crosses between models of which one batches and one does not.

    Attributes:
        dims: what the reader expects, without a batch dimension; -1 for any size.
        batched: whether the reader batches.
    """

    dims: Dims
    batched: bool

    def shape(self, given: tuple[int, ...]) -> tuple[int, ...]:
        """A batch dimension of 1 is put in front or taken away where that makes the shape fit; else it stays."""
        fits = len(given) == len(self.dims) and all(
            dim in (-1, size) for dim, size in zip(self.dims, given, strict=True)
        )
        if self.batched:
            return (1, *given) if fits else given
        return given[1:] if not fits and given[:1] == (1,) else given


@dataclass(frozen=True, slots=True)
class Feed:
    """The tensor (its number in the graph) that feeds one input of a step, or is one output of the ensemble.

    Attributes:
        shaped: gives the shape under which the tensor arrives; None where it does not change.
    """

    name: str
    tensor: int
    shaped: Callable[[tuple[int, ...]], tuple[int, ...]] | None


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """One step, as a request runs it that needs it.

    Attributes:
        index: its place in the configuration; `number` counts from 1.
        targets: (output of the model, number of the tensor), for the outputs that somebody needs.
        wanted: the names in `targets`.
        in_region: of the graph, 0 before any decoupled step.
        key: stands in the signatures of its requests for names and requested outputs, which are always the same.
    """

    index: int
    model: str
    version: int
    feeds: tuple[Feed, ...]
    targets: tuple[tuple[str, int], ...]
    wanted: tuple[str, ...]
    in_region: int
    decoupled: bool
    key: object = field(default_factory=object)

    @property
    def number(self) -> int:
        return self.index + 1


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What runs for a request that wants certain outputs.

    Attributes:
        steps: by index; None where the step is not needed.
        inputs: the ensemble's inputs, as (name, number of the tensor).
        readers: by tensor, the indices of the steps that read it; `answer` for the outputs of the ensemble.
        waits: by step, then of the answer, how many tensors it reads.
        answer: the index behind the last step.
        outputs: in the order of the answer.
        region: of the outputs.
        tensors: how many there are.
    """

    steps: tuple[StepPlan | None, ...]
    inputs: tuple[tuple[str, int], ...]
    readers: tuple[tuple[int, ...], ...]
    waits: tuple[int, ...]
    answer: int
    outputs: tuple[Feed, ...]
    region: int
    tensors: int


class Graph:
    """The graph of one ensemble over its step models as they are at one moment.

    Args:
        config: of the ensemble, checked.
        models: of the steps, in their order; None where one does not serve now: its tensors cross as they are.
    """

    def __init__(self, config: "ModelConfig", models: Sequence[StepModel | None]) -> None:
        self.models = models
        self._steps = config.ensemble_scheduling.step
        self._batched = config.max_batch_size > 0
        self._inputs, self._outputs = io_specs(config)
        self._numbers: dict[str, int] = {}
        for name in self._names():
            self._numbers.setdefault(name, len(self._numbers))
        self._makers = {tensor: index for index, step in enumerate(self._steps) for tensor in step.output_map.values()}
        self._plans: dict[tuple[str, ...], Plan] = {}

    def plan(self, requested: tuple[str, ...]) -> Plan:
        """The plan for these outputs of the ensemble; () for all."""
        plan = self._plans.get(requested)
        if plan is None:
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.clear()
            plan = self._plans[requested] = self._planned(requested)
        return plan

    def _names(self) -> Iterator[str]:
        yield from (spec.name for spec in self._inputs)
        for step in self._steps:
            yield from step.input_map.values()
            yield from step.output_map.values()
        yield from (spec.name for spec in self._outputs)

    def _planned(self, requested: tuple[str, ...]) -> Plan:
        specs = {spec.name: spec for spec in self._outputs}
        wanted = [specs[name] for name in requested or specs]
        needed = self._needed([spec.name for spec in wanted])
        read = {spec.name for spec in wanted}.union(*(self._steps[index].input_map.values() for index in needed))
        regions = self._regions()
        steps = tuple(
            self._step(index, step, read, regions) if index in needed else None
            for index, step in enumerate(self._steps)
        )
        outputs = tuple(self._output(spec) for spec in wanted)
        sources = [{feed.tensor for feed in step.feeds} if step is not None else set() for step in steps]
        sources.append({feed.tensor for feed in outputs})
        return Plan(
            steps,
            tuple((spec.name, self._numbers[spec.name]) for spec in self._inputs),
            tuple(
                tuple(reader for reader, tensors in enumerate(sources) if number in tensors)
                for number in range(len(self._numbers))
            ),
            tuple(len(tensors) for tensors in sources),
            len(steps),
            outputs,
            max((regions.get(spec.name, 0) for spec in wanted), default=0),
            len(self._numbers),
        )

    def _needed(self, tensors: Sequence[str]) -> set[int]:
        """The steps that make these tensors, and those that these steps need."""
        needed: set[int] = set()
        waiting = list(tensors)
        while waiting:
            index = self._makers.get(waiting.pop())
            if index is not None and index not in needed:
                needed.add(index)
                waiting += self._steps[index].input_map.values()
        return needed

    def _regions(self) -> dict[str, int]:
        """The region of each tensor that a step makes; the others are in region 0."""
        regions: dict[str, int] = {}
        waiting = dict(enumerate(self._steps))
        while waiting:
            ready = [index for index, step in waiting.items() if not self._makes_one_of(waiting, step)]
            for index in ready or list(waiting):
                step = waiting.pop(index)
                region = self._region_of(step, regions) + self._is_decoupled(index)
                regions.update(dict.fromkeys(step.output_map.values(), region))
        return regions

    def _makes_one_of(self, waiting: Mapping[int, "Step"], step: "Step") -> bool:
        return any(self._makers.get(tensor) in waiting for tensor in step.input_map.values())

    def _region_of(self, step: "Step", regions: Mapping[str, int]) -> int:
        return max((regions.get(tensor, 0) for tensor in step.input_map.values()), default=0)

    def _is_decoupled(self, index: int) -> bool:
        model = self.models[index]
        return model is not None and model.decoupled

    def _is_batched(self, tensor: str) -> bool:
        """Whether what makes the tensor batches."""
        index = self._makers.get(tensor)
        return self._batched if index is None else self._step_batches(index)

    def _step_batches(self, index: int) -> bool:
        model = self.models[index]
        return self._batched if model is None else model.config.max_batch_size > 0

    def _step(self, index: int, step: "Step", read: set[str], regions: Mapping[str, int]) -> StepPlan:
        targets = tuple(
            (name, self._numbers[tensor]) for name, tensor in sorted(step.output_map.items()) if tensor in read
        )
        return StepPlan(
            index,
            model_of(step),
            version_of(step),
            tuple(self._feed(index, name, tensor) for name, tensor in sorted(step.input_map.items())),
            targets,
            tuple(name for name, _ in targets),
            self._region_of(step, regions),
            self._is_decoupled(index),
        )

    def _feed(self, index: int, name: str, tensor: str) -> Feed:
        model, batched = self.models[index], self._step_batches(index)
        spec = next((spec for spec in model.inputs if spec.name == name), None) if model is not None else None
        fits = spec is None or batched == self._is_batched(tensor)
        return Feed(name, self._numbers[tensor], None if fits or spec is None else Fit(spec.dims, batched).shape)

    def _output(self, spec: OutputSpec) -> Feed:
        number = self._numbers[spec.name]
        inner = spec.dims if spec.reshape is None else spec.reshape
        fit = Fit(inner, self._batched).shape if self._batched != self._is_batched(spec.name) else None
        if spec.reshape is None:
            return Feed(spec.name, number, fit)
        reshape = Reshape(spec.reshape, spec.dims, self._batched).apply
        return Feed(spec.name, number, reshape if fit is None else lambda shape: reshape(fit(shape)))


def models_of_steps(config: "ModelConfig", models: StepModels) -> list[StepModel | None]:
    """The models of the steps, in their order; None for one that does not serve now."""
    return [_found(models, *step) for step in steps_of(config)]


def _found(models: StepModels, name: str, version: int) -> StepModel | None:
    try:
        return models.find(name, version)
    except CharoniaError:
        return None
