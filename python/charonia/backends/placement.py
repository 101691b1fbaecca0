"""From the instance groups of a configuration to the instances to make, and the devices that they run on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from charonia.backends.base import InstanceSpec
from charonia.backends.cores import threads_per_instance
from charonia.config.host_policies import HostPolicies, group_settings, policy_of
from charonia.config.instance_groups import resolved_kind
from charonia.config.rate_limits import rate_needs
from charonia.config.schema import ModelConfig, ModelInstanceGroup
from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log

KIND_AUTO, KIND_GPU = ModelInstanceGroup.KIND_AUTO, ModelInstanceGroup.KIND_GPU
KIND_CPU, KIND_MODEL = ModelInstanceGroup.KIND_CPU, ModelInstanceGroup.KIND_MODEL
_KIND_NAMES = {KIND_AUTO: "KIND_AUTO", KIND_GPU: "KIND_GPU", KIND_CPU: "KIND_CPU", KIND_MODEL: "KIND_MODEL"}


@dataclass(frozen=True, slots=True)
class Devices:
    """What instances may run on.

    Attributes:
        gpus: the indices of the visible GPUs.
        cores: whole CPU cores that the process may use.
        no_gpu: the value of `--no-gpu`: what KIND_GPU does when `gpus` is empty, "error" or "cpu".
        policies: see `HostPolicies`.
    """

    gpus: tuple[int, ...]
    cores: int
    no_gpu: str = "error"
    policies: HostPolicies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    kind: str
    devices: tuple[str, ...]


def place(config: ModelConfig, devices: Devices, cpu_threads: int, log: Log) -> list[InstanceSpec]:
    """The instances of `config`, in the order of its groups.

    Names are Triton's: group `g` has the instances `g_0`, `g_1`, …; an unnamed group n of model `m` is `m_n`, and
    without any group there is one instance `m_0`. A GPU group has `count` instances on each of its GPUs.

    Args:
        cpu_threads: threads for each instance, see `share_of_cores`.

    Raises:
        InvalidArgumentError: a group that can't be placed; the message names the group, the model and what to change.
    """
    specs: list[InstanceSpec] = []
    for group_name, group in _named_groups(config):
        where = _place_group(config, group_name, group, devices, log)
        rate, settings = rate_needs(group), group_settings(group)
        for number in range(group.count or 1):
            for device in where.devices:
                cores = devices.policies.get(policy_of(group, where.kind, device), ())
                threads = min(cpu_threads, len(cores)) if cores else cpu_threads
                spec = InstanceSpec(
                    f"{group_name}_{number}", where.kind, device, threads, cores, group.passive, rate, settings
                )
                specs.append(spec)
    return specs


def instance_count(config: ModelConfig, devices: Devices) -> int:
    """How many instances `config` asks for, without checking that it can have them."""
    return sum(_group_count(group, devices) for _, group in _named_groups(config) if not group.passive)


def share_of_cores(devices: Devices, instances: int, log: Log) -> int:
    """CPU threads for each instance, when `instances` of all models are loaded; says so in the log."""
    threads = threads_per_instance(devices.cores, instances)
    log.info(
        f"CPU threads for each instance: {threads} ({devices.cores} cores for {instances} instances of all models); "
        "a model's own setting goes before it"
    )
    return threads


def _named_groups(config: ModelConfig) -> list[tuple[str, ModelInstanceGroup]]:
    if not config.instance_group:
        return [(config.name, ModelInstanceGroup(count=1))]
    return [(group.name or f"{config.name}_{index}", group) for index, group in enumerate(config.instance_group)]


def _group_count(group: ModelInstanceGroup, devices: Devices) -> int:
    count = group.count or 1
    if devices.gpus and resolved_kind(group, devices.gpus) == KIND_GPU:
        return count * (len(group.gpus) or len(devices.gpus))
    return count


def _place_group(config: ModelConfig, name: str, group: ModelInstanceGroup, devices: Devices, log: Log) -> _Place:
    kind = resolved_kind(group, devices.gpus)
    if group.count < 0:
        raise InvalidArgumentError(f"{_who(config, name)} has count {group.count}, expected at least 1")
    if kind == KIND_GPU:
        return _place_on_gpus(config, name, group, devices, log)
    if group.gpus and group.kind != KIND_AUTO:
        listed = _listed(group.gpus)
        raise InvalidArgumentError(
            f"{_who(config, name)} has kind {_KIND_NAMES[kind]} but lists gpus {listed}: remove 'gpus', or use KIND_GPU"
        )
    return _Place(_KIND_NAMES[kind], ("cpu",))


def _place_on_gpus(config: ModelConfig, name: str, group: ModelInstanceGroup, devices: Devices, log: Log) -> _Place:
    if not devices.gpus:
        return _without_gpu(config, name, devices, log)
    wanted = tuple(group.gpus) or devices.gpus
    missing = [gpu for gpu in wanted if gpu not in devices.gpus]
    if missing:
        raise InvalidArgumentError(
            f"{_who(config, name)} wants GPU {_listed(missing)}, but the visible GPUs are {_listed(devices.gpus)}"
        )
    return _Place("KIND_GPU", tuple(f"gpu:{gpu}" for gpu in wanted))


def _without_gpu(config: ModelConfig, name: str, devices: Devices, log: Log) -> _Place:
    if devices.no_gpu != "cpu":
        raise InvalidArgumentError(
            f"{_who(config, name)} has kind KIND_GPU but no GPUs are available: "
            "start with --no-gpu=cpu to run such groups on the CPU, or give the group kind: KIND_CPU"
        )
    log.warning(f"{_who(config, name)} has kind KIND_GPU and runs on the CPU, as --no-gpu=cpu says: no GPU is visible")
    return _Place("KIND_CPU", ("cpu",))


def _who(config: ModelConfig, group_name: str) -> str:
    return f"instance group {group_name} of model {config.name}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
