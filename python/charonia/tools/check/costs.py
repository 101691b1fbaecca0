"""What works and costs: settings that waste time, memory or rows, or that have no effect. All are warnings.

What somebody wrote on purpose is no finding: an instance group, a version policy or `max_batch_size: 0` that stands
in the file is left alone, the same as a default is pointed out.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

from charonia.backends.placement import Devices, instance_count
from charonia.config.findings import Finding, Severity
from charonia.config.model_tensor import shown
from charonia.config.places import Place, Places
from charonia.config.schema import ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput, ModelSequenceBatching
from charonia.core.datatypes import BY_NUMBER
from charonia.repository.inspection import ModelReading

if TYPE_CHECKING:
    Io = ModelInput | ModelOutput

# Parameters that are read, by backend; others are for the model's own code.
_PARAMETERS = {
    "onnxruntime": (
        "intra_op_thread_count",
        "inter_op_thread_count",
        "execution_mode",
        "enable_mem_arena",
        "enable_mem_pattern",
        "memory.enable_memory_arena_shrinkage",
        "cudnn_conv_algo_search",
        "gpu_mem_limit",
        "arena_extend_strategy",
        "do_copy_in_default_stream",
    ),
    "python": ("EXECUTION_ENV_PATH", "FORCE_CPU_ONLY_INPUT_TENSORS", "execution"),
}
# Those that the server itself reads, whatever the backend.
_FOR_ANY_BACKEND = ("batching_strategy", "latency_target_p95_ms", "latency_target_p99_ms")
_HUGE_BYTES = 1 << 30


def model_costs(reading: ModelReading, config: ModelConfig, devices: Devices) -> Iterator[Finding]:
    """Of a model as its files configure it, whether or not the model itself would add something.

    Args:
        config: as far as it is known.
    """
    notes = _Notes(reading.loaded.places)
    yield from _unserved(reading)
    yield from _parameters(config, notes)
    yield from _instances(config, notes, devices)


def completed_costs(reading: ModelReading, config: ModelConfig, max_input_bytes: int) -> Iterator[Finding]:
    """Of a model whose configuration is complete.

    Args:
        max_input_bytes: the largest body that HTTP takes.
    """
    notes = _Notes(reading.loaded.places)
    yield from _batching(config, notes)
    yield from _sequences(config, notes)
    yield from _sizes(config, notes, max_input_bytes)


class _Notes:
    """Makes warnings with the places of one configuration."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def warn(self, path: str, message: str, remedy: str = "") -> Finding:
        return Finding(Severity.WARNING, path, self.places.find(path), message, remedy)


def _unserved(reading: ModelReading) -> Iterator[Finding]:
    left = [version for version in reading.model.versions if version not in reading.versions]
    if not reading.versions or not left or "version_policy" in reading.loaded.places:
        return
    served, kept = _listed(reading.versions), _listed(left)
    message = f"only the latest version {served} is served, and not {kept}: there is no version_policy"
    remedy = "write version_policy { all { } } to serve them all, or version_policy { latest { num_versions: 1 } }"
    yield Finding(Severity.WARNING, "", Place(str(reading.model.path)), message, remedy)


def _parameters(config: ModelConfig, notes: _Notes) -> Iterator[Finding]:
    """Keys that nobody reads, but for one letter."""
    known = (*_PARAMETERS.get(config.backend, ()), *_FOR_ANY_BACKEND)
    for key in config.parameters:
        near = get_close_matches(key.lower(), [each.lower() for each in known], 1, 0.8)
        meant = next((each for each in known if near and each.lower() == near[0]), "")
        if meant and key not in known and not key.startswith(("session.", "latency_target_")):  # which has its own rule
            message = f"backend {config.backend} does not read the parameter '{key}'"
            if meant in _FOR_ANY_BACKEND:
                message = f"nothing reads the parameter '{key}'"
            yield notes.warn(f'parameters["{key}"]', message, f"did you mean '{meant}'?")


def _instances(config: ModelConfig, notes: _Notes, devices: Devices) -> Iterator[Finding]:
    """Instances on the CPU beside its cores."""
    if any(
        group.kind in (ModelInstanceGroup.KIND_GPU, ModelInstanceGroup.KIND_MODEL) for group in config.instance_group
    ):
        return
    count, cores = instance_count(config, devices), devices.cores
    threads = _threads(config)
    if threads and count * threads > cores:
        at = 'parameters["intra_op_thread_count"]'
        message = (
            f"{count} instance(s) of {threads} threads each share {cores} core(s), so threads wait for one another"
        )
        yield notes.warn(at, message, "leave intra_op_thread_count out: the cores are then shared out")
    elif count > cores:
        message = f"{count} instances share {cores} core(s): more take memory, and do no more at a time"
        yield notes.warn("instance_group", message, f"write count: {cores} or less, if the model computes")
    elif config.backend == "python" and count < cores and "instance_group" not in notes.places:
        message = f"a Python model with one instance uses one core of {cores}, and one request or batch at a time"
        remedy = f"write instance_group [ {{ kind: KIND_CPU count: {cores} }} ], or count: 1 if that is meant"
        yield notes.warn("instance_group", message, remedy)


def _threads(config: ModelConfig) -> int:
    if config.backend != "onnxruntime" or "intra_op_thread_count" not in config.parameters:
        return 0
    text = config.parameters["intra_op_thread_count"].string_value
    return int(text) if text.isdecimal() else 0


def _batching(config: ModelConfig, notes: _Notes) -> Iterator[Finding]:
    """Of dynamic_batching with max_batch_size 0, the rules of the configuration tell."""
    size = config.max_batch_size
    if config.HasField("dynamic_batching"):
        delay = config.dynamic_batching.max_queue_delay_microseconds
        if size == 1:
            waits = f", and each request waits {delay} microseconds for others in vain" if delay else ""
            message = f"dynamic_batching joins nothing: max_batch_size is 1{waits}"
            yield notes.warn("dynamic_batching", message, "raise max_batch_size, or remove dynamic_batching")
    elif size > 1 and config.WhichOneof("scheduling_choice") is None:
        message = (
            f"requests don't batch: max_batch_size is {size} and there is no dynamic_batching, so each request is "
            "executed by itself"
        )
        yield notes.warn("max_batch_size", message, "add dynamic_batching { }")


def _sequences(config: ModelConfig, notes: _Notes) -> Iterator[Finding]:
    """How many sequences live at a time, and what is kept for them."""
    batching = config.sequence_batching
    if not config.HasField("sequence_batching"):
        return
    if config.max_batch_size < 2 and batching.WhichOneof("strategy_choice") is None:
        message = (
            "an instance has one sequence at a time, and the next one waits for its end: sequence_batching names no "
            f"strategy, which is direct {{ }}, with a slot for each row, and max_batch_size is {config.max_batch_size}"
        )
        remedy = "write oldest { max_candidate_sequences: 64 }, or direct { } if that is meant"
        yield notes.warn("sequence_batching", message, remedy)
    count = batching.oldest.max_candidate_sequences or max(1, config.max_batch_size)
    kept = sum(_row_bytes(state) for state in batching.state) * count
    if kept >= _HUGE_BYTES:
        message = f"the states of {count} sequences, as many as an instance may have, take {kept:,} bytes"
        yield notes.warn("sequence_batching.state", message, "make sure that there is so much memory")


def _sizes(config: ModelConfig, notes: _Notes, max_input_bytes: int) -> Iterator[Finding]:
    """Fixed dims of which one row is more than anybody can send, or than is meant."""
    total = sum(_row_bytes(io) for io in config.input)
    for kind, ios in _sides(config):
        for index, io in enumerate(ios):
            if _row_bytes(io) >= _HUGE_BYTES:
                message = f"dims of {kind} '{io.name}' are {shown(io.dims)}: {_row_bytes(io):,} bytes a row"
                yield notes.warn(f"{kind}[{index}].dims", message, "make sure that this is meant")
    if max_input_bytes < total < _HUGE_BYTES:
        message = f"one row of inputs has {total:,} bytes, and HTTP takes {max_input_bytes:,} bytes a request"
        yield notes.warn("input", message, f"start with --http-max-input-size={total * 2}, or use gRPC")


def _sides(config: ModelConfig) -> "Iterable[tuple[str, Sequence[Io]]]":
    return (("input", config.input), ("output", config.output))


def _row_bytes(io: "Io | ModelSequenceBatching.State") -> int:
    datatype = BY_NUMBER.get(io.data_type)
    size = datatype.item_size_bytes if datatype is not None else 0
    return prod(io.dims) * size if all(dim > 0 for dim in io.dims) else 0


def _listed(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions))
