"""What the rate limiter is told: by instance groups, what an instance needs; by the command line, what there is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.core.errors import InvalidArgumentError
from charonia.core.text import whole_number

if TYPE_CHECKING:
    from charonia.config.schema import ModelInstanceGroup

EACH_DEVICE = -1
"""As the device of a resource: every device has that many."""
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NeededResource:
    """So much of a resource that an instance needs while it executes; of its device, or of the whole server."""

    name: str
    count: int
    is_global: bool


@dataclass(frozen=True, slots=True)
class RateNeeds:
    """What `rate_limiter` says of the instances of a group.

    Attributes:
        resources: all of them are needed at the same time.
        priority: at least 1. Of those that wait, an instance with priority 2 executes half as often as one with 1.
    """

    resources: tuple[NeededResource, ...] = ()
    priority: int = 1


NO_NEEDS = RateNeeds()

GivenResources = Mapping[int, Mapping[str, int]]
"""How much there is, by device or EACH_DEVICE, then by name."""


def rate_needs(group: "ModelInstanceGroup") -> RateNeeds:
    """Of a resource that is listed twice the last one counts, as in Triton."""
    limiter = group.rate_limiter
    if not limiter.resources and limiter.priority <= 1:
        return NO_NEEDS
    listed = {
        (each.name, is_global): NeededResource(each.name, each.count, is_global)
        for each in limiter.resources
        for is_global in (getattr(each, "global"),)  # a keyword, so there is no attribute of this name to write
    }
    return RateNeeds(tuple(listed.values()), max(1, limiter.priority))


def given_resources(texts: Iterable[str]) -> GivenResources:
    """From `<name>:<count>` and `<name>:<count>:<device>`. Of what is given twice the smaller count is true.

    Raises:
        InvalidArgumentError: a text of another form.
    """
    given: dict[int, dict[str, int]] = {}
    for text in texts:
        name, count, device = _resource(text)
        counts = given.setdefault(device, {})
        counts[name] = min(count, counts.get(name, count))
    return given


def _resource(text: str) -> tuple[str, int, int]:
    name, *numbers = text.split(":")
    if not name or not 1 <= len(numbers) <= 2:
        raise InvalidArgumentError(
            f"--rate-limit-resource expects <name>:<count> or <name>:<count>:<device>, got '{text}'"
        )
    count = _number(text, "count", numbers[0], 0)
    device = _number(text, "device", numbers[1], EACH_DEVICE) if len(numbers) == 2 else EACH_DEVICE
    return name, count, device


def _number(text: str, what: str, number: str, least: int) -> int:
    value = whole_number(number)
    if value is None or not least <= value <= _MOST:
        raise InvalidArgumentError(
            f"--rate-limit-resource={text}: the {what} must be a whole number from {least} to {_MOST}, got '{number}'"
        )
    return value
