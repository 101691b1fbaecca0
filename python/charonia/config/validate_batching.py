"""Rules for dynamic batching, priorities and queues, and for sequence batching and its control inputs."""

from collections.abc import Mapping, Sequence

from charonia.config.batching_strategy import check_batching_strategy
from charonia.config.latency_target import check_latency_target
from charonia.config.report import Report
from charonia.config.schema import DataType, ModelConfig, ModelQueuePolicy, ModelSequenceBatching

_CORRID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
_PAIRS = {
    "int32_false_true": "[ 0, 1 ]",
    "fp32_false_true": "[ 0, 1 ]",
    "bool_false_true": "[ false, true ]",
}
_FALSE_TRUE = tuple(_PAIRS)


def check_batching(config: ModelConfig, report: Report, *, is_complete: bool) -> None:
    """`is_complete` False: max_batch_size may still come from the model file when it is 0."""
    limit = config.max_batch_size if is_complete or config.max_batch_size > 0 else None
    if config.HasField("dynamic_batching"):
        _check_preferred(config.dynamic_batching.preferred_batch_size, "dynamic_batching", limit, report)
        _check_priorities(config, report)
        _check_order(config, report)
        if limit == 0 and not config.dynamic_batching.preferred_batch_size:
            message = "dynamic_batching joins no requests: max_batch_size is 0, so the model takes no batches"
            report.warn("dynamic_batching", message, "set max_batch_size, or remove dynamic_batching")
    if config.HasField("sequence_batching"):
        _check_sequences(config.sequence_batching, limit, report)
    check_latency_target(config, report, is_complete=is_complete)
    check_batching_strategy(config, report)


def _check_preferred(sizes: Sequence[int], where: str, limit: int | None, report: Report) -> None:
    for index, size in enumerate(sizes):
        path = f"{where}.preferred_batch_size[{index}]"
        if size < 1:
            report.error(path, f"preferred_batch_size {size} of {where} is not positive", "write sizes of 1 or more")
        elif limit is not None and size > limit:
            message = f"preferred_batch_size {size} of {where} is above max_batch_size {limit}"
            line = report.line_of("max_batch_size")
            report.error(path, message, f"lower it, or raise max_batch_size{line} to {size}")


def _check_priorities(config: ModelConfig, report: Report) -> None:
    batching = config.dynamic_batching
    levels = batching.priority_levels
    if not levels:
        return
    default = batching.default_priority_level
    if not 1 <= default <= levels:
        message = f"default_priority_level is {default}, expected 1 to {levels} (priority_levels)"
        report.error("dynamic_batching.default_priority_level", message, f"write default_priority_level: {levels}")
    for level in batching.priority_queue_policy:
        if not 1 <= level <= levels:
            message = f"priority_queue_policy has an entry for level {level}, expected 1 to {levels} (priority_levels)"
            path = f'dynamic_batching.priority_queue_policy["{level}"]'
            report.error(path, message, f"write key: {levels} or less, or raise priority_levels")


def _check_order(config: ModelConfig, report: Report) -> None:
    batching = config.dynamic_batching
    if not batching.preserve_ordering:
        return
    line = report.line_of("dynamic_batching.preserve_ordering")
    if batching.priority_levels > 1:
        message = f"priority_levels is {batching.priority_levels} and preserve_ordering is true{line}: only one of them"
        report.error("dynamic_batching.priority_levels", message, "remove one of the two")
    policies: dict[str, ModelQueuePolicy] = {
        "dynamic_batching.default_queue_policy": batching.default_queue_policy,
        **_by_path(batching.priority_queue_policy),
    }
    for path, policy in policies.items():
        if policy.default_timeout_microseconds and policy.timeout_action == ModelQueuePolicy.DELAY:
            message = f"timeout_action DELAY would change the order that preserve_ordering{line} keeps"
            report.error(f"{path}.timeout_action", message, "use REJECT, or remove preserve_ordering")


def _by_path(policies: Mapping[int, ModelQueuePolicy]) -> dict[str, ModelQueuePolicy]:
    return {f'dynamic_batching.priority_queue_policy["{level}"]': policies[level] for level in policies}


def _check_sequences(batching: ModelSequenceBatching, limit: int | None, report: Report) -> None:
    if batching.HasField("oldest"):
        _check_preferred(batching.oldest.preferred_batch_size, "sequence_batching.oldest", limit, report)
    if batching.HasField("direct") and not 0.0 <= batching.direct.minimum_slot_utilization <= 1.0:
        got = batching.direct.minimum_slot_utilization
        path = "sequence_batching.direct.minimum_slot_utilization"
        report.error(path, f"minimum_slot_utilization is {got:g}, expected 0 to 1", "write a share, such as 0.5")
    seen_names: dict[str, str] = {}
    seen_kinds: dict[int, str] = {}
    for index, control_input in enumerate(batching.control_input):
        path = f"sequence_batching.control_input[{index}]"
        if not control_input.name:
            report.error(path, "a control_input has no name", 'write name: "…", the tensor that the model reads')
        elif seen_names.setdefault(control_input.name, path) != path:
            report.error(path, f"two control_inputs are named '{control_input.name}'", "give each its own tensor")
        for number, control in enumerate(control_input.control):
            control_path = f"{path}.control[{number}]"
            kind = ModelSequenceBatching.Control.Kind.Name(control.kind)
            if seen_kinds.setdefault(control.kind, control_path) != control_path:
                report.error(control_path, f"two tensors have the control {kind}", "keep one of them")
            _check_control(control, kind, control_input.name, control_path, report)


def _check_control(control: ModelSequenceBatching.Control, kind: str, name: str, path: str, report: Report) -> None:
    values = {field: list(getattr(control, field)) for field in _FALSE_TRUE if getattr(control, field)}
    if kind == "CONTROL_SEQUENCE_CORRID":
        if values:
            report.error(path, f"{kind} of '{name}' takes no {', '.join(values)}", "write data_type instead")
        if DataType.Name(control.data_type) not in _CORRID_TYPES:
            got = DataType.Name(control.data_type) if control.data_type else "none"
            message = f"{kind} of '{name}' has data_type {got}, expected one of {', '.join(_CORRID_TYPES)}"
            report.error(f"{path}.data_type", message, "write data_type: TYPE_UINT64, or what the model has")
        return
    if len(values) != 1:
        got = " and ".join(values) or "none"
        message = f"{kind} of '{name}' takes one of {', '.join(_FALSE_TRUE)}, got {got}"
        report.error(path, message, "write, for example, int32_false_true: [ 0, 1 ]")
        return
    (field, pair), = values.items()  # fmt: skip
    if len(pair) != 2:
        message = f"{field} of '{name}' has {len(pair)} values, expected 2: the one for false and the one for true"
        report.error(f"{path}.{field}", message, f"write {field}: {_PAIRS[field]}")
