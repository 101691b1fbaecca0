"""Filling in what a configuration leaves open, as Triton does; each filled field is recorded with its reason."""

from collections.abc import MutableSequence

from charonia.config.findings import Completion, Finding, Severity
from charonia.config.layout import Layout, explain_no_backend
from charonia.config.places import NO_PLACES, Places
from charonia.config.platforms import (
    ENSEMBLE,
    Rule,
    meant_by_platform,
    rule_for_filename,
    rule_for_files,
    rule_for_platform,
    rules_for_backend,
)
from charonia.config.schema import ModelConfig

SEQUENCE_IDLE_US = 1_000_000


def fill_backend(
    config: ModelConfig, name: str, layout: Layout, places: Places = NO_PLACES
) -> tuple[list[Completion], list[Finding]]:
    """Fill `name`, `backend`, `platform` and `default_model_filename` in `config` from one another and from `layout`.

    Args:
        name: the model's folder name.

    Returns:
        What was filled in, and findings when nothing tells the backend.
    """
    done: list[Completion] = []
    if not config.name:
        _set(config, "name", name, "the folder's name", done)
    if config.platform == ENSEMBLE or config.HasField("ensemble_scheduling"):
        if not config.platform and not config.backend:
            _set(config, "platform", ENSEMBLE, "ensemble_scheduling is set", done)
        return done, []
    rule, reason = _rule_and_reason(config, layout)
    if rule is not None:
        _apply(config, rule, reason, done)
        return done, []
    if config.backend:
        return done, []
    if config.platform or config.default_model_filename:
        return done, [_unknown(config, places)]
    _, dot, backend = name.partition(".")
    if not dot:
        return done, [Finding(Severity.ERROR, "backend", places.find("backend"), *explain_no_backend(name, layout))]
    _set(config, "backend", backend, "the model's name is 'model.<backend>'", done)
    _set(config, "default_model_filename", f"model.{backend}", "the model's name is 'model.<backend>'", done)
    return done, []


def _rule_and_reason(config: ModelConfig, layout: Layout) -> tuple[Rule | None, str]:
    platform = rule_for_platform(config.platform)
    if platform is not None and config.backend in ("", platform.backend):
        return platform, f"platform is {config.platform}"
    if config.platform and not config.backend:
        return None, ""
    rules = rules_for_backend(config.backend)
    if config.backend and len(rules) < 2:
        return (rules[0] if rules else None), f"backend is {config.backend}"
    if config.default_model_filename:
        named = rule_for_filename(config.default_model_filename)
        if named is not None and (not rules or named in rules):
            return named, f"default_model_filename is {config.default_model_filename}"
    found = (
        rule_for_files(layout.files, layout.folders, rules) if rules else rule_for_files(layout.files, layout.folders)
    )
    if found is not None and not config.default_model_filename:
        return found, f"{layout.version}/{found.filename} is there"
    if config.backend == "pytorch":
        return rules[0], "backend is pytorch"
    return None, ""


def _apply(config: ModelConfig, rule: Rule, reason: str, done: list[Completion]) -> None:
    for field, value in (
        ("backend", rule.backend),
        ("platform", rule.platform),
        ("default_model_filename", rule.filename),
    ):
        if value and not getattr(config, field):
            _set(config, field, value, reason, done)


def _unknown(config: ModelConfig, places: Places) -> Finding:
    if config.platform:
        message = f"platform \"{config.platform}\" of model '{config.name}' is not known"
        return Finding(Severity.ERROR, "platform", places.find("platform"), message, meant_by_platform(config.platform))
    message = f"default_model_filename \"{config.default_model_filename}\" does not tell the backend of '{config.name}'"
    path = "default_model_filename"
    return Finding(Severity.ERROR, path, places.find(path), message, 'set backend: "…" beside it')


def _set(config: ModelConfig, field: str, value: str, reason: str, done: list[Completion]) -> None:
    setattr(config, field, value)
    done.append(Completion(field, f'"{value}"', reason))


def normalize(config: ModelConfig) -> list[Completion]:
    """Fill everything but instance groups: version policy, preferred batch sizes, idle time, pinned memory. In place.

    May be called again after a backend completed the configuration; what is filled stays.
    """
    done: list[Completion] = []
    if not config.HasField("version_policy"):
        config.version_policy.latest.num_versions = 1
        done.append(Completion("version_policy", "{ latest { num_versions: 1 } }", "default"))
    if config.HasField("dynamic_batching"):
        _prefer_full_batches(config, config.dynamic_batching.preferred_batch_size, "dynamic_batching", done)
    elif config.HasField("sequence_batching"):
        _normalize_sequences(config, done)
    if not config.HasField("ensemble_scheduling"):
        _pin_memory(config, done)
    return done


def _prefer_full_batches(config: ModelConfig, sizes: MutableSequence[int], path: str, done: list[Completion]) -> None:
    if not sizes and config.max_batch_size > 0:
        sizes.append(config.max_batch_size)
        done.append(Completion(f"{path}.preferred_batch_size", f"[ {config.max_batch_size} ]", "max_batch_size"))


def _normalize_sequences(config: ModelConfig, done: list[Completion]) -> None:
    batching = config.sequence_batching
    if batching.max_sequence_idle_microseconds == 0:
        batching.max_sequence_idle_microseconds = SEQUENCE_IDLE_US
        path = "sequence_batching.max_sequence_idle_microseconds"
        done.append(Completion(path, str(SEQUENCE_IDLE_US), "default"))
    if batching.HasField("oldest"):
        _prefer_full_batches(config, batching.oldest.preferred_batch_size, "sequence_batching.oldest", done)


def _pin_memory(config: ModelConfig, done: list[Completion]) -> None:
    for name in ("input_pinned_memory", "output_pinned_memory"):
        if not config.optimization.HasField(name):
            getattr(config.optimization, name).enable = True
            done.append(Completion(f"optimization.{name}", "{ enable: true }", "default"))
