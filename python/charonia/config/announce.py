"""What the log says of configurations: what was filled in and why, and what is wrong, with the lines of the file."""

from collections.abc import Iterable, Sequence

from google.protobuf import text_format

from charonia.config.descriptors import fields_in_order
from charonia.config.findings import Completion, ConfigError, errors_in
from charonia.config.model_config import LoadedConfig
from charonia.config.schema import ModelConfig
from charonia.core.errors import CharoniaError
from charonia.core.log import Log
from charonia.core.text import printable


def log_completed(log: Log, loaded: LoadedConfig) -> None:
    """One line with every field that was filled in; at verbose level 1 the whole configuration as well."""
    name = loaded.config.name
    if loaded.completions:
        source = "its configuration" if loaded.source else "it has no configuration, so"
        does = "leaves open what is filled in" if loaded.source else "this is filled in"
        log.info(f"model '{name}': {source} {does}: {described(loaded.completions)}")
    if log.highest_verbosity >= 1:
        log.verbose(f"model '{name}' has this configuration:\n{annotated(loaded.config, loaded.completions)}")


def log_errors(log: Log, failed: str, error: CharoniaError) -> None:
    """Why something failed: each finding by itself, below it its line of the file with a caret, and what would fit.

    Args:
        failed: what failed, the beginning of each line: `failed to load 'm'`.
    """
    if not isinstance(error, ConfigError):
        log.error(f"{failed}: {error}")
        return
    for finding in errors_in(error.findings):
        log.error(f"{failed}: {finding}", finding.details)


def described(completions: Iterable[Completion]) -> str:
    """`max_batch_size: 4, dynamic_batching: { } (the model batches); …`: by reason, plain defaults last."""
    by_reason: dict[str, list[str]] = {}
    for completion in completions:
        by_reason.setdefault(completion.reason, []).append(f"{completion.path}: {completion.value}")
    ordered = sorted(by_reason.items(), key=lambda item: item[0] == "default")
    return "; ".join(printable(f"{', '.join(fields)} ({reason})") for reason, fields in ordered)


def annotated(config: ModelConfig, completions: Sequence[Completion]) -> str:
    """The configuration as config.pbtxt would say it, with a comment before each part that was filled in."""
    lines: list[str] = []
    for field in fields_in_order(config):
        part = ModelConfig()
        part.MergeFrom(config)
        for other in fields_in_order(config):
            if other.name != field.name:
                part.ClearField(other.name)  # type: ignore[arg-type]
        text = text_format.MessageToString(part).rstrip("\n")
        if text:
            lines += [f"# {printable(f'{c.path}: {c.reason}')}" for c in completions if _top(c.path) == field.name]
            lines.append(text)
    return "\n".join(lines)


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]
