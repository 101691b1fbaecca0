"""Rules between an ensemble and the models of its steps: that they are there, and that their tensors fit together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from charonia.config.model_tensor import OPEN, shown
from charonia.config.report import Report
from charonia.config.schema import DataType, ModelConfig, ModelEnsembling, ModelInput, ModelOutput

Io = ModelInput | ModelOutput
Step = ModelEnsembling.Step


@dataclass(frozen=True, slots=True)
class StepModel:
    """A model that steps may name: its configuration, completed, and the numbers of its versions."""

    config: ModelConfig
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Tensor:
    """What is known of a tensor of the ensemble: who says so, its datatype, its dims, and them with a batch."""

    whose: str
    data_type: int
    dims: tuple[int, ...]
    full_dims: tuple[int, ...]


def check_steps_with_models(config: ModelConfig, models: Mapping[str, StepModel], report: Report) -> None:
    """Check `config`, an ensemble, against the models of the repositories.

    Args:
        models: by name; of a model whose inputs or outputs are not known, the tensors are not checked.
    """
    known = dict(_own(config))
    for index, step in enumerate(config.ensemble_scheduling.step):
        path = f"ensemble_scheduling.step[{index}]"
        model = models.get(step.model_name)
        if model is None:
            _no_model(step, path, models, report)
            continue
        _check_version(step, path, model, report)
        _check_batch(config, step, path, model, report)
        _check_side("input", step, path, model, known, report)
        _check_side("output", step, path, model, known, report)
    _check_circle(config, models, report)


def _own(config: ModelConfig) -> Iterator[tuple[str, _Tensor]]:
    """The ensemble's inputs and outputs; its steps see them reshaped."""
    for kind, ios in (("input", config.input), ("output", config.output)):
        for io in ios:
            dims = io.reshape.shape if io.HasField("reshape") else io.dims
            yield io.name, _tensor(f"{kind} '{io.name}' of the ensemble", io, dims, config)


def _tensor(whose: str, io: Io, dims: Sequence[int], config: ModelConfig) -> _Tensor:
    given = tuple(dims)
    return _Tensor(whose, io.data_type, given, (OPEN, *given) if config.max_batch_size > 0 else given)


def _no_model(step: Step, path: str, models: Mapping[str, StepModel], report: Report) -> None:
    if step.model_name:
        near = get_close_matches(step.model_name, list(models), 1, 0.6)
        remedy = f'write model_name: "{near[0]}"' if near else "add the model to a repository"
        message = f"the model '{step.model_name}' of the step is in no repository"
        report.error(f"{path}.model_name", message, remedy)


def _check_version(step: Step, path: str, model: StepModel, report: Report) -> None:
    if step.model_version > 0 and step.model_version not in model.versions:
        served = ", ".join(map(str, model.versions)) or "none"
        message = f"version {step.model_version} of '{step.model_name}' is not served; served are {served}"
        report.error(f"{path}.model_version", message, "write model_version: -1 for the latest, or one of these")


def _check_batch(config: ModelConfig, step: Step, path: str, model: StepModel, report: Report) -> None:
    limit = model.config.max_batch_size
    if 0 < limit < config.max_batch_size:
        message = (
            f"max_batch_size of the ensemble is {config.max_batch_size}{report.line_of('max_batch_size')}, and "
            f"'{step.model_name}' takes at most {limit}"
        )
        report.error(path, message, f"write max_batch_size: {limit} in the ensemble")


def _check_side(kind: str, step: Step, path: str, model: StepModel, known: dict[str, _Tensor], report: Report) -> None:
    ios: Sequence[Io] = model.config.input if kind == "input" else model.config.output
    mapped = step.input_map if kind == "input" else step.output_map
    by_name = {io.name: io for io in ios}
    if not ios:
        return
    for name, tensor in mapped.items():
        where = f'{path}.{kind}_map["{name}"]'
        io = by_name.get(name)
        if io is None:
            message = f"'{step.model_name}' has no {kind} '{name}'; its {kind}s are {', '.join(by_name)}"
            near = get_close_matches(name, list(by_name), 1, 0.5) or list(by_name)
            report.error(where, message, f'write key: "{near[0]}"')
            continue
        here = _tensor(f"{kind} '{name}' of '{step.model_name}'", io, io.dims, model.config)
        _check_same(tensor, known.setdefault(tensor, here), here, where, report)
    missing = [io.name for io in ios if isinstance(io, ModelInput) and not io.optional and io.name not in mapped]
    for name in missing:
        message = f"the step gives '{step.model_name}' nothing for its input '{name}'"
        report.error(f"{path}.input_map", message, f'add input_map {{ key: "{name}" value: "…" }}')


def _check_same(name: str, first: _Tensor, here: _Tensor, path: str, report: Report) -> None:
    if first.data_type != here.data_type and first.data_type and here.data_type:
        types = f"{_type(here)} as {here.whose}, and {_type(first)} as {first.whose}"
        message = f"the ensemble tensor '{name}' is {types}"
        report.error(path, message, "map tensors of one datatype, or convert in a step between")
    if not (_fit(first.dims, here.dims) or _fit(first.full_dims, here.full_dims)):
        shapes = f"{shown(here.full_dims)} as {here.whose}, and {shown(first.full_dims)} as {first.whose}"
        message = f"the ensemble tensor '{name}' has the shape {shapes}"
        report.error(path, message, "map tensors of one shape; -1 fits any size")


def _type(tensor: _Tensor) -> str:
    return DataType.Name(tensor.data_type)  # type: ignore[arg-type]


def _fit(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return len(left) == len(right) and all(OPEN in (a, b) or a == b for a, b in zip(left, right, strict=True))


def _check_circle(config: ModelConfig, models: Mapping[str, StepModel], report: Report) -> None:
    """An ensemble that would need itself, through steps of other ensembles."""
    for index, step in enumerate(config.ensemble_scheduling.step):
        way = _way(step.model_name, config.name, models, {config.name})
        if way:
            message = f"the ensemble needs itself: {' → '.join((config.name, *way))}"
            report.error(f"ensemble_scheduling.step[{index}].model_name", message, "take one of the steps out")
            return


def _way(start: str, goal: str, models: Mapping[str, StepModel], seen: set[str]) -> tuple[str, ...]:
    if start == goal:
        return (goal,)
    if start in seen or start not in models:
        return ()
    seen.add(start)
    ways = (_way(step.model_name, goal, models, seen) for step in models[start].config.ensemble_scheduling.step)
    return next(((start, *way) for way in ways if way), ())
