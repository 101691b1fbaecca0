"""Rules for instance groups. Whether a GPU is there is decided where instances are placed."""

from collections.abc import Sequence

from charonia.config.report import Report
from charonia.config.schema import ModelConfig, ModelInstanceGroup

MOST_INSTANCES = 4096
"""Of one version of a model. Each has a thread or a process of its own, and a load of a million would never end."""
_NO_GPUS = (ModelInstanceGroup.KIND_CPU, ModelInstanceGroup.KIND_MODEL)


def check_instance_groups(config: ModelConfig, report: Report) -> None:
    if config.HasField("ensemble_scheduling"):
        return
    count = sum(max(1, group.count) * max(1, len(group.gpus)) for group in config.instance_group)
    if count > MOST_INSTANCES:
        message = f"the instance groups have {count} instances together, expected at most {MOST_INSTANCES}"
        report.error("instance_group", message, "write a lower count: about one for each core or GPU")
        return
    for index, group in enumerate(config.instance_group):
        path = f"instance_group[{index}]"
        if group.kind in _NO_GPUS and group.gpus:
            kind = ModelInstanceGroup.Kind.Name(group.kind)
            message = f"instance group {group.name} has kind {kind} and lists gpus [{', '.join(map(str, group.gpus))}]"
            report.error(f"{path}.gpus", message, "remove gpus, or write kind: KIND_GPU")
        for gpu in group.gpus:
            if gpu < 0:
                message = f"instance group {group.name} lists the GPU {gpu}"
                report.error(f"{path}.gpus", message, "write gpus: [ 0 ]: they count from 0")
        if group.profile and config.platform != "tensorrt_plan":
            message = f"instance group {group.name} has a profile, which only TensorRT models have"
            report.error(f"{path}.profile", message, "remove it")
        elif any(not profile.isdecimal() for profile in group.profile):
            message = f"instance group {group.name} has profile {list(group.profile)}, expected numbers in quotes"
            report.error(f"{path}.profile", message, 'write profile: [ "0" ]')
    _check_resources(config, report)


def check_counts(given: Sequence[int], config: ModelConfig, report: Report) -> None:
    """Negative counts are read as Triton reads them.

    Args:
        given: the counts as they were written, one for each group that was.
        config: with the counts that they were read as.
    """
    for index, (count, group) in enumerate(zip(given, config.instance_group, strict=False)):
        if count < 0:
            instances = f"{group.count} instance{'s' if group.count > 1 else ''}"
            message = f"count is {count} and is read as not set: {instances}"
            report.warn(f"instance_group[{index}].count", message, f"write count: {group.count}, or remove it")


def _check_resources(config: ModelConfig, report: Report) -> None:
    """A resource of the rate limiter is counted once for all devices, or for each of them: everywhere the same."""
    first: dict[str, tuple[bool, str]] = {}
    for index, group in enumerate(config.instance_group):
        for number, resource in enumerate(group.rate_limiter.resources):
            path = f"instance_group[{index}].rate_limiter.resources[{number}]"
            is_global = getattr(resource, "global")  # a keyword, so there is no attribute of this name to write
            if not resource.name:
                report.error(path, "a resource of the rate limiter has no name", 'write name: "…"')
                continue
            was_global, where = first.setdefault(resource.name, (is_global, path))
            if was_global != is_global:
                message = f"the resource '{resource.name}' is global in one place{report.line_of(where)} and not here"
                report.error(path, message, "write global: true in both, or in none")
