"""Rules for ensembles: what they may not have, and that every tensor is written once and read."""

from dataclasses import dataclass, field
from difflib import get_close_matches

from charonia.config.platforms import ENSEMBLE
from charonia.config.report import Report
from charonia.config.schema import ModelConfig


@dataclass(slots=True)
class _Tensor:
    """A tensor of the ensemble: where it comes from, and its readers: path and name of the step, and its input."""

    written_at: str = ""
    writer: str = ""
    readers: list[tuple[str, str, str]] = field(default_factory=list)
    is_output: bool = False


def check_ensemble(config: ModelConfig, report: Report) -> None:
    if not config.HasField("ensemble_scheduling"):
        if config.platform == ENSEMBLE:
            report.error("platform", f'platform is "{ENSEMBLE}" but there is no ensemble_scheduling', "add the steps")
        return
    if config.platform != ENSEMBLE:
        got = f'platform "{config.platform}"' if config.platform else f'backend "{config.backend}"'
        message = f'ensemble_scheduling needs platform "{ENSEMBLE}", got {got}'
        report.error("ensemble_scheduling", message, f'write platform: "{ENSEMBLE}" and no backend')
    _check_forbidden(config, report)
    if not config.ensemble_scheduling.step:
        report.error("ensemble_scheduling", "the ensemble has no step", "add step { model_name: … }")
        return
    _check_steps(config, report)
    _check_flow(config, report)


def _check_forbidden(config: ModelConfig, report: Report) -> None:
    for name, is_set in (
        ("instance_group", bool(config.instance_group)),
        ("optimization", config.HasField("optimization")),
        ("model_warmup", bool(config.model_warmup)),
    ):
        if is_set:
            report.error(name, f"an ensemble has no {name}", "set it in the models of its steps")


def _check_steps(config: ModelConfig, report: Report) -> None:
    for index, step in enumerate(config.ensemble_scheduling.step):
        path = f"ensemble_scheduling.step[{index}]"
        for name in ("model_name", "input_map", "output_map"):
            if not getattr(step, name):
                whose = f" ('{step.model_name}')" if step.model_name else ""
                report.error(path, f"step {index + 1}{whose} has no {name}", f"add {name}")


def _check_flow(config: ModelConfig, report: Report) -> None:
    tensors: dict[str, _Tensor] = {}
    for index, io in enumerate(config.input):
        tensors.setdefault(io.name, _Tensor(f"input[{index}]", "an input of the ensemble"))
    for index, step in enumerate(config.ensemble_scheduling.step):
        path, who = f"ensemble_scheduling.step[{index}]", f"step {index + 1} ('{step.model_name}')"
        for name in step.output_map.values():
            tensor = tensors.setdefault(name, _Tensor())
            if tensor.written_at:
                other = report.line_of(tensor.written_at)
                message = f"the ensemble tensor '{name}' is written twice: by {tensor.writer}{other} and {who}"
                report.error(f"{path}.output_map", message, "give one of them another name")
            else:
                tensor.written_at, tensor.writer = path, who
        for key, name in step.input_map.items():
            tensors.setdefault(name, _Tensor()).readers.append((path, who, key))
    for index, output in enumerate(config.output):
        tensor = tensors.setdefault(output.name, _Tensor())
        tensor.is_output = True
        if not tensor.written_at:
            message = f"no step writes the ensemble's output '{output.name}'"
            report.error(f"output[{index}]", message, "name it as a value in a step's output_map")
    _check_used(tensors, report)
    _check_order(config, tensors, report)


def _check_used(tensors: dict[str, _Tensor], report: Report) -> None:
    for name, tensor in tensors.items():
        if tensor.readers and not tensor.written_at:
            path, who, key = tensor.readers[0]
            message = f"the ensemble tensor '{name}' is read by {who}, but neither an input nor written by a step"
            report.error(f"{path}.input_map", message, _remedy(name, key, tensors))
        elif not tensor.readers and not tensor.is_output:
            message = f"the ensemble tensor '{name}', from {tensor.writer}, is not used by any step or output"
            report.error(tensor.written_at, message, "remove it, or read it")


def _remedy(name: str, key: str, tensors: dict[str, _Tensor]) -> str:
    """For a step that reads `name`, which nobody writes, as its input `key`."""
    if key in tensors and tensors[key].written_at:
        return f'write key: "{name}" value: "{key}": the key is the model\'s name, the value the ensemble\'s'
    unread = [each for each, tensor in tensors.items() if tensor.written_at and not tensor.readers]
    near = get_close_matches(name, unread, 1, 0.6)
    return f'write value: "{near[0]}"' if near else "name it in an output_map, or as an input"


def _check_order(config: ModelConfig, tensors: dict[str, _Tensor], report: Report) -> None:
    """Steps whose inputs can never all be ready stand in a circle."""
    ready = {
        name for name, tensor in tensors.items() if tensor.written_at.startswith("input[") or not tensor.written_at
    }
    waiting = dict(enumerate(config.ensemble_scheduling.step))
    while True:
        done = [index for index, step in waiting.items() if all(name in ready for name in step.input_map.values())]
        if not done:
            break
        for index in done:
            ready.update(waiting.pop(index).output_map.values())
    if waiting:
        names = ", ".join(f"{index + 1} ('{step.model_name}')" for index, step in waiting.items())
        path = f"ensemble_scheduling.step[{next(iter(waiting))}]"
        message = f"steps {names} wait for one another in a circle"
        if len(waiting) == 1:
            message = f"step {names} waits for a tensor that only it writes"
        report.error(path, message, "let one of them read an input of the ensemble, or what an earlier step writes")
