"""Which versions of a model are served: the `version_policy` of its config over the folders that are there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """`versions` to serve, ascending; `missing` ones were asked for by number and have no folder."""

    versions: tuple[int, ...]
    missing: tuple[int, ...] = ()


def choose_versions(config: "ModelConfig", available: Sequence[int]) -> VersionChoice:
    """Apply the policy; without one the latest version counts, and an empty one keeps all, as in Triton.

    Raises:
        InvalidArgumentError: nothing is left to serve.
    """
    choice = _choose(config, sorted(set(available)))
    if not choice.versions:
        raise InvalidArgumentError(_nothing_left(config, available, choice.missing))
    return choice


def _choose(config: "ModelConfig", available: list[int]) -> VersionChoice:
    policy = config.version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "specific":
        wanted = sorted(set(policy.specific.versions))
        return VersionChoice(
            tuple(version for version in wanted if version in available),
            tuple(version for version in wanted if version not in available),
        )
    if kind == "latest" or not config.HasField("version_policy"):
        count = policy.latest.num_versions if kind == "latest" else 1
        return VersionChoice(tuple(available[max(0, len(available) - count) :]))
    return VersionChoice(tuple(available))


def _nothing_left(config: "ModelConfig", available: Sequence[int], missing: Sequence[int]) -> str:
    must = f"at least one version must be available under the version policy of model '{config.name}'"
    if missing:
        there = f"there are only {_listed(available)}" if available else "there is no version folder"
        return f"{must}: it asks for version {_listed(missing)}, and {there}; change versions, or add the folder"
    if available:
        return f"{must}: it keeps the latest 0; write num_versions: 1 or more"
    return f"{must}: its folder has no version folder, such as '{config.name}/1' with the model file in it"


def _listed(versions: Sequence[int]) -> str:
    return ", ".join(str(version) for version in versions)
