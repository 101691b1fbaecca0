"""Rules between an ensemble and the models of its steps: that they are there, and that their tensors fit together."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from charonia.config.model_tensor import OPEN, shown
from charonia.config.nearest import nearest
from charonia.config.report import Report
from charonia.config.schema import DataType, ModelConfig, ModelEnsembling, ModelInput, ModelOutput
from charonia.config.steps import model_of, step_names
from charonia.core.model_id import ModelId

NO_REASONS: Mapping[ModelId, str] = {}
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


def check_steps_with_models(
    ensemble: ModelId,
    config: ModelConfig,
    models: Mapping[ModelId, StepModel],
    names: Collection[str],
    report: Report,
    why_not: Mapping[ModelId, str] = NO_REASONS,
) -> None:
    """Check `config`, that of `ensemble`, against the models of the repositories, or against those that serve.

    Args:
        models: by id; of a model whose inputs or outputs are not known, the tensors are not checked.
        names: of all models in the repositories.
        why_not: by id, why models that are not among `models` don't serve.
    """
    known = dict(_own(config))
    written, read = _names_at("output", config, models), _names_at("input", config, models)
    for number, step in enumerate(config.ensemble_scheduling.step, 1):
        path = f"ensemble_scheduling.step[{number - 1}]"
        model = models.get(model_of(step))
        if model is None:
            _no_model(config, step, number, path, names, report, why_not)
            continue
        _check_version(step, number, path, model, report)
        _check_batch(config, step, number, path, model, report)
        _check_side("input", step, number, path, model, known, written, report)
        _check_side("output", step, number, path, model, known, read, report)
    _check_circle(ensemble, config, models, report)
    _check_streams(config, models, report)
    _check_cache(config, models, report)


def is_decoupled(config: ModelConfig, models: Mapping[ModelId, StepModel]) -> bool:
    """Whether a request to the ensemble may have any number of responses: one to a step may, so the ensemble says."""
    return any(_streams(model_of(step), models, set()) for step in config.ensemble_scheduling.step)


def _check_cache(config: ModelConfig, models: Mapping[ModelId, StepModel], report: Report) -> None:
    """What can't be cached of a step can't be cached of the ensemble; decoupled steps make the ensemble decoupled."""
    if not config.response_cache.enable:
        return
    waiting, seen = [model_of(step) for step in config.ensemble_scheduling.step], set[ModelId]()
    while waiting:
        name = waiting.pop()
        model = models.get(name)
        if model is None or name in seen:
            continue
        seen.add(name)
        waiting += [model_of(step) for step in model.config.ensemble_scheduling.step]
        if model.config.HasField("sequence_batching"):
            message = f"the response cache does not currently support ensembles with sequences, and '{name}' has them"
            report.error("response_cache", message, "remove response_cache { enable: true }")
            return


def _own(config: ModelConfig) -> Iterator[tuple[str, _Tensor]]:
    """The ensemble's inputs and outputs; its steps see them reshaped."""
    for kind, ios in (("input", config.input), ("output", config.output)):
        for io in ios:
            dims = io.reshape.shape if io.HasField("reshape") else io.dims
            yield io.name, _tensor(f"{kind} '{io.name}' of the ensemble", io, dims, config)


def _tensor(whose: str, io: Io, dims: Sequence[int], config: ModelConfig) -> _Tensor:
    given = tuple(dims)
    return _Tensor(whose, io.data_type, given, (OPEN, *given) if config.max_batch_size > 0 else given)


def _names_at(kind: str, config: ModelConfig, models: Mapping[ModelId, StepModel]) -> set[str]:
    """The ensemble's own tensors, and those that its steps read, or write.

    In an entry that seems to be the wrong way round, the key is the ensemble's name.
    """
    names = {io.name for io in config.input} | {io.name for io in config.output}
    for step in config.ensemble_scheduling.step:
        model = models.get(model_of(step))
        of_model = {io.name for io in _side(kind, model.config)} if model is not None else set()
        mapped = step.input_map if kind == "input" else step.output_map
        names |= {key if key not in of_model and tensor in of_model else tensor for key, tensor in mapped.items()}
    return names


def _side(kind: str, config: ModelConfig) -> Sequence[Io]:
    return config.input if kind == "input" else config.output


def _no_model(
    config: ModelConfig,
    step: Step,
    number: int,
    path: str,
    names: Collection[str],
    report: Report,
    why_not: Mapping[ModelId, str],
) -> None:
    name = model_of(step)
    if not name:
        return
    message = f"the model '{name}' of step {number} is in no repository"
    if name in why_not:
        message = f"step {number} needs model '{name}', which does not serve: {why_not[name]}"
    remedy = ""
    if name not in names:
        # A model that is a step already is seldom meant a second time: preprocessing is no misspelt postprocessing.
        near = nearest(name, sorted(set(names) - {config.name, *step_names(config)}), 0.6)
        remedy = f'write model_name: "{near}"' if near else "add the model to a repository"
    report.error(f"{path}.model_name", message, remedy)


def _check_version(step: Step, number: int, path: str, model: StepModel, report: Report) -> None:
    if step.model_version > 0 and step.model_version not in model.versions:
        served = ", ".join(map(str, model.versions)) or "none"
        message = (
            f"step {number} needs version {step.model_version} of '{step.model_name}', which is not served; served are "
            f"{served}"
        )
        report.error(f"{path}.model_version", message, "write model_version: -1 for the latest, or one of these")


def _check_batch(config: ModelConfig, step: Step, number: int, path: str, model: StepModel, report: Report) -> None:
    limit = model.config.max_batch_size
    if 0 < limit < config.max_batch_size:
        message = (
            f"max_batch_size of the ensemble is {config.max_batch_size}{report.line_of('max_batch_size')}, and "
            f"'{step.model_name}' of step {number} takes at most {limit}"
        )
        report.error(path, message, f"write max_batch_size: {limit} in the ensemble")


def _check_side(
    kind: str,
    step: Step,
    number: int,
    path: str,
    model: StepModel,
    known: dict[str, _Tensor],
    others: Collection[str],
    report: Report,
) -> None:
    """`others`: the ensemble's own tensors, and those at the other side of its steps, which this side is mapped to."""
    ios = _side(kind, model.config)
    mapped = step.input_map if kind == "input" else step.output_map
    by_name = {io.name: io for io in ios}
    if not ios:
        return
    who = f"step {number} ('{step.model_name}')"
    free = [name for name in by_name if name not in mapped]  # what no key has; a wrong key means one of these
    for name, tensor in mapped.items():
        where = f'{path}.{kind}_map["{name}"]'
        io = by_name.get(name)
        if io is None:
            message = (
                f"{who} has no {kind} '{name}' for the ensemble tensor '{tensor}'; its {kind}s are {', '.join(by_name)}"
            )
            meant, remedy = _key_meant(name, tensor, [by_name[each] for each in free], list(by_name), others)
            free = [each for each in free if each != meant]
            report.error(where, message, remedy)
            continue
        here = _tensor(f"{kind} '{name}' of {who}", io, io.dims, model.config)
        _check_same(tensor, known.setdefault(tensor, here), here, where, report)
    missing = [io.name for io in ios if isinstance(io, ModelInput) and not io.optional and io.name in free]
    for name in missing:
        message = f"{who} gets nothing for its input '{name}'"
        report.error(f"{path}.input_map", message, f'add input_map {{ key: "{name}" value: "…" }}')


def _key_meant(
    key: str, value: str, free: Sequence[Io], names: Sequence[str], others: Collection[str]
) -> tuple[str, str]:
    """For a key that is no tensor of the model: the tensor that was probably meant, and what to write.

    Args:
        free: the tensors that no key has, and that no other wrong key means.
        names: the model's inputs, or its outputs.
        others: tensors of the ensemble.
    """
    if value in names and value not in others and key in others:
        return value, f'write key: "{value}" value: "{key}": the key is the model\'s name, the value the ensemble\'s'
    near = nearest(key, [io.name for io in free], 0.5)
    needed = [io.name for io in free if not (isinstance(io, ModelInput) and io.optional)]
    meant = near or (needed[0] if len(needed) == 1 else "")
    return meant, f'write key: "{meant or (needed or names)[0]}"'


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


def _check_circle(ensemble: ModelId, config: ModelConfig, models: Mapping[ModelId, StepModel], report: Report) -> None:
    """An ensemble that would need itself, through steps of other ensembles."""
    for index, step in enumerate(config.ensemble_scheduling.step):
        way = _way(model_of(step), ensemble, models, {ensemble})
        if way:
            message = f"the ensemble needs itself: {' → '.join((ensemble, *way))}"
            report.error(f"ensemble_scheduling.step[{index}].model_name", message, "take one of the steps out")
            return


def _way(start: ModelId, goal: ModelId, models: Mapping[ModelId, StepModel], seen: set[str]) -> tuple[str, ...]:
    if start == goal:
        return (goal,)
    if start in seen or start not in models:
        return ()
    seen.add(start)
    ways = (_way(model_of(step), goal, models, seen) for step in models[start].config.ensemble_scheduling.step)
    return next(((start, *way) for way in ways if way), ())


def _streams(name: ModelId, models: Mapping[ModelId, StepModel], seen: set[str]) -> bool:
    """Whether a model, or a step of an ensemble, is decoupled."""
    if name in seen or name not in models:
        return False
    seen.add(name)
    config = models[name].config
    steps = config.ensemble_scheduling.step
    if steps:
        return any(_streams(model_of(step), models, seen) for step in steps)
    return config.model_transaction_policy.decoupled


def _check_streams(config: ModelConfig, models: Mapping[ModelId, StepModel], report: Report) -> None:
    """What comes with each response of a decoupled step has no pair in those of another, or in what came once."""
    streams = {io.name: "" for io in config.input}
    waiting = dict(enumerate(config.ensemble_scheduling.step, 1))
    while ready := [n for n, step in waiting.items() if all(name in streams for name in step.input_map.values())]:
        for number in ready:
            step = waiting.pop(number)
            who = f"step {number} ('{step.model_name}')"
            path = f"ensemble_scheduling.step[{number - 1}].input_map"
            stream = _one_stream(f"{who} takes", path, _streams_of(step, streams), report)
            if _streams(model_of(step), models, set()):
                stream = who
            streams |= dict.fromkeys(step.output_map.values(), stream)
    outputs = {io.name: streams[io.name] for io in config.output if io.name in streams}
    _one_stream("the ensemble's outputs are", "output[0]", outputs, report)


def _one_stream(who: str, path: str, tensors: Mapping[str, str], report: Report) -> str:
    """The decoupled step from which all of these come, "" for none."""
    first = next(iter(tensors), "")
    for name, stream in tensors.items():
        if stream != tensors[first]:
            message = f"{who} {_origin(first, tensors)}, and {_origin(name, tensors)}: they don't come in pairs"
            report.error(path, message, "let the decoupled step pass on what belongs to each of its responses")
            break
    return tensors.get(first, "")


def _streams_of(step: Step, streams: Mapping[str, str]) -> Mapping[str, str]:
    return {step.input_map[key]: streams[step.input_map[key]] for key in sorted(step.input_map)}


def _origin(name: str, tensors: Mapping[str, str]) -> str:
    return f"'{name}' " + (f"with each response of {tensors[name]}" if tensors[name] else "once")
