"""`--host-policy=<policy>,<setting>=<value>`: which cores the instances of a policy run on."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from charonia.config.schema import ModelInstanceGroup
from charonia.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from charonia.config.schema import ModelInstanceGroup as Group

CPU_CORES, NUMA_NODE = "cpu-cores", "numa-node"

HostPolicies = Mapping[str, tuple[int, ...]]
"""The cores of each policy that names any."""

_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")
_MOST_CORES = 2**16


def host_policies(settings: Mapping[str, Mapping[str, str]]) -> HostPolicies:
    """Other settings than cores are for backends, which have none of their own here.

    Raises:
        InvalidArgumentError: a setting of the wrong form.
    """
    for policy, values in settings.items():
        if not policy:
            without = ", ".join(f"{key}={value}" for key, value in values.items())
            raise InvalidArgumentError(f"--host-policy expects <policy>,<setting>=<value>, got '{without}'")
        node = values.get(NUMA_NODE)
        if node is not None and not node.isdecimal():
            raise InvalidArgumentError(f"--host-policy={policy},{NUMA_NODE} expects the number of a node, got '{node}'")
    return {policy: _cores(policy, values[CPU_CORES]) for policy, values in settings.items() if CPU_CORES in values}


def remarks(settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is asked for and not done."""
    return [
        f"--host-policy={policy},{setting}: memory is not bound to NUMA nodes; {CPU_CORES} binds threads to cores"
        if setting == NUMA_NODE
        else f"--host-policy={policy},{setting}: no backend here has this setting; there is {CPU_CORES}"
        for policy, values in settings.items()
        for setting in values
        if setting != CPU_CORES
    ]


def policy_of(group: "Group", kind: str, device: str) -> str:
    """The name of the policy of a group's instances: its own, or the one that goes with what they run on."""
    if group.host_policy:
        return group.host_policy
    return {"KIND_GPU": device.replace(":", "_"), "KIND_MODEL": "model"}.get(kind, "cpu")


def group_settings(group: "Group") -> bytes:
    """What tells the instances of one group from those of another that run on the same device."""
    rest = ModelInstanceGroup()
    rest.CopyFrom(group)
    for name in ("name", "count", "kind", "gpus"):
        rest.ClearField(name)
    return rest.SerializeToString(deterministic=True)


def _cores(policy: str, text: str) -> tuple[int, ...]:
    """`0-3` or `0-3,8-11`; both ends belong to it."""
    cores: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2])) if match else (1, 0)
        if not first <= last < _MOST_CORES:
            raise InvalidArgumentError(
                f"--host-policy={policy},{CPU_CORES} expects '<first core>-<last core>', and commas between several of "
                f"them, got '{part}'"
            )
        cores.update(range(first, last + 1))
    return tuple(sorted(cores))
