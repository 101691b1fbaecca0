"""What of a configuration depends on the launch line: sections that nobody turns on, resources that are too few."""

from collections.abc import Iterable, Iterator

from charonia.config.findings import Finding, Severity
from charonia.config.places import Places
from charonia.config.rate_limits import given_resources, rate_needs
from charonia.config.schema import ModelConfig
from charonia.options import ServerOptions

_OR_ELSE = "(the flags of the server may stand behind the repository here)"


def beside_launch_line(config: ModelConfig, places: Places, options: ServerOptions) -> Iterator[Finding]:
    """Of one model.

    Args:
        places: of its configuration.
        options: as the server would be started with.
    """
    if options.rate_limit == "execution_count":
        yield from _too_few(config, places, options.rate_limit_resource)
    else:
        yield from _unlimited(config, places)
    if config.response_cache.enable and not options.cache_config:
        message = "response_cache has no effect without --cache-config: every request is executed"
        remedy = f"start with --cache-config=local,size=268435456 {_OR_ELSE}"
        yield Finding(Severity.WARNING, "response_cache", places.find("response_cache"), message, remedy)


def _unlimited(config: ModelConfig, places: Places) -> Iterator[Finding]:
    for index, group in enumerate(config.instance_group):
        if group.HasField("rate_limiter"):
            path = f"instance_group[{index}].rate_limiter"
            message = "rate_limiter has no effect without --rate-limit=execution_count: no instance waits for it"
            remedy = f"start with --rate-limit=execution_count {_OR_ELSE}"
            yield Finding(Severity.WARNING, path, places.find(path), message, remedy)


def _too_few(config: ModelConfig, places: Places, flags: Iterable[str]) -> Iterator[Finding]:
    """What an instance needs and no device has. Without flags there is as much as each needs."""
    given = given_resources(flags)
    for index, group in enumerate(config.instance_group if given else ()):
        for need in rate_needs(group).resources:
            there_is = max(counts.get(need.name, 0) for counts in given.values())
            if need.count > there_is:
                path = f"instance_group[{index}].rate_limiter"
                message = f"an instance needs {need.count} of the resource '{need.name}', and there is {there_is}"
                remedy = f"start with --rate-limit-resource={need.name}:{need.count} or more, or write a lower count"
                yield Finding(Severity.ERROR, path, places.find(path), message, remedy)
