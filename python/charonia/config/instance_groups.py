"""Defaults of instance groups: names, kinds, counts and GPUs, as Triton fills them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from charonia.config.findings import Completion
from charonia.config.schema import ModelConfig, ModelInstanceGroup

if TYPE_CHECKING:
    Group = ModelInstanceGroup

_TWO_CPU_INSTANCES = frozenset(("onnxruntime", "tensorflow"))
"""The backends for which Triton reads a CPU group without a count as two instances."""


def fill_instance_groups(config: ModelConfig, gpus: Sequence[int] = ()) -> list[Completion]:
    """Fill `instance_group` of `config` in place. Ensembles have none.

    Without any group there is one instance; that is fewer than Triton makes for an ONNX model on the CPU (two).
    KIND_AUTO becomes KIND_GPU when all the GPUs it lists are visible and there is one, else KIND_CPU.

    Args:
        gpus: the indices of the visible GPUs.
    """
    done: list[Completion] = []
    if config.HasField("ensemble_scheduling"):
        return done
    if not config.instance_group:
        config.instance_group.add(name=config.name, count=1)
        done.append(Completion("instance_group", f'[ {{ name: "{config.name}" count: 1 }} ]', "default"))
    for index, group in enumerate(config.instance_group):
        _fill(config, group, index, gpus, done)
    return done


def _fill(config: ModelConfig, group: "Group", index: int, gpus: Sequence[int], done: list[Completion]) -> None:
    path = f"instance_group[{index}]"
    if not group.name:
        group.name = f"{config.name}_{index}"
        done.append(Completion(f"{path}.name", f'"{group.name}"', "the model's name and the group's number"))
    if group.kind == ModelInstanceGroup.KIND_AUTO:
        _resolve_kind(group, path, gpus, done)
    if group.count < 1:
        is_double = group.kind == ModelInstanceGroup.KIND_CPU and config.backend in _TWO_CPU_INSTANCES
        was = f"{group.count} is read as not set; " if group.count else ""
        group.count = 2 if is_double else 1
        reason = f"{was}{f'default of {config.backend} on the CPU' if is_double else 'default'}"
        done.append(Completion(f"{path}.count", str(group.count), reason))
    if group.kind == ModelInstanceGroup.KIND_GPU and not group.gpus and gpus:
        group.gpus.extend(gpus)
        done.append(Completion(f"{path}.gpus", f"[ {', '.join(map(str, gpus))} ]", "all visible GPUs"))


def resolved_kind(group: "Group", gpus: Sequence[int]) -> "Group.Kind.ValueType":
    """KIND_AUTO decided: the GPU when one is visible and so are all that the group lists, else the CPU."""
    if group.kind != ModelInstanceGroup.KIND_AUTO:
        return group.kind
    usable = gpus and all(gpu in gpus for gpu in group.gpus)
    return ModelInstanceGroup.KIND_GPU if usable else ModelInstanceGroup.KIND_CPU


def _resolve_kind(group: "Group", path: str, gpus: Sequence[int], done: list[Completion]) -> None:
    group.kind = resolved_kind(group, gpus)
    on_gpu = group.kind == ModelInstanceGroup.KIND_GPU
    reason = "a GPU is visible" if on_gpu else "no GPU that it could use is visible"
    done.append(Completion(f"{path}.kind", ModelInstanceGroup.Kind.Name(group.kind), reason))
    if group.kind == ModelInstanceGroup.KIND_CPU and group.gpus:
        # KIND_AUTO says "if you can"; a CPU group that still listed GPUs would be refused.
        del group.gpus[:]
        done.append(Completion(f"{path}.gpus", "[ ]", reason))
