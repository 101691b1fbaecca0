"""Rules for ragged batches: what the server makes of a batch (`batch_input`), and what it scatters (`batch_output`)."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from charonia.config.model_tensor import shown
from charonia.config.platforms import ENSEMBLE
from charonia.config.report import Report
from charonia.config.schema import BatchInput, BatchOutput, DataType, ModelConfig

if TYPE_CHECKING:
    from charonia.config.schema import ModelInput, ModelOutput

_BATCH_INPUT_TYPES = (DataType.Value("TYPE_INT32"), DataType.Value("TYPE_FP32"))
# These take each request by itself: there is nothing that could be told of the batch, or cut out of it.
_ONE_BY_ONE = ("python", "identity")


def check_batch_io(config: ModelConfig, report: Report) -> None:
    inputs = {io.name for io in config.input}
    outputs = {io.name for io in config.output}
    taken: dict[str, str] = {}
    for index, batch_input in enumerate(config.batch_input):
        path = f"batch_input[{index}]"
        _check_sources(batch_input.source_input, path, _kind(BatchInput.Kind, batch_input.kind), inputs, report)
        _check_made(batch_input, path, inputs, taken, report)
    for index, batch_output in enumerate(config.batch_output):
        path = f"batch_output[{index}]"
        _check_sources(batch_output.source_input, path, _kind(BatchOutput.Kind, batch_output.kind), inputs, report)
        _check_scattered(config, batch_output, path, outputs, report)
    _check_backend(config, report)


def _kind(kinds: "type[BatchInput.Kind] | type[BatchOutput.Kind]", kind: int) -> str:
    return kinds.Name(kind) if kind in kinds.values() else ""  # type: ignore[arg-type]  # JSON may have any number


def _check_made(
    batch_input: BatchInput, path: str, inputs: Collection[str], taken: dict[str, str], report: Report
) -> None:
    if batch_input.data_type not in _BATCH_INPUT_TYPES:
        got = DataType.Name(batch_input.data_type) if batch_input.data_type else "none"
        message = f"a batch_input has data_type TYPE_INT32 or TYPE_FP32, got {got}"
        report.error(f"{path}.data_type", message, "write the one that the model's input has")
    for name in batch_input.target_name:
        earlier = taken.setdefault(name, path)
        if name in inputs:
            message = f"batch_input makes '{name}', which is an input that requests bring"
            report.error(f"{path}.target_name", message, f"remove '{name}' from input, or name another target")
        elif earlier != path or list(batch_input.target_name).count(name) > 1:
            message = f"two batch_inputs make '{name}'{report.line_of(f'{earlier}.target_name')}"
            report.error(f"{path}.target_name", message, "once is enough")


def _check_scattered(
    config: ModelConfig, batch_output: BatchOutput, path: str, outputs: Collection[str], report: Report
) -> None:
    names = list(batch_output.target_name)
    earlier = {name for other in config.batch_output for name in other.target_name if other is not batch_output}
    for name in dict.fromkeys(names):
        if name not in outputs:
            message = f"batch_output names the output '{name}', and {_known(outputs)}"
            report.error(f"{path}.target_name", message, _meant("target_name", name, outputs))
        elif names.count(name) > 1 or name in earlier:
            report.error(f"{path}.target_name", f"batch_output names the output '{name}' twice", "once is enough")
        else:
            _check_followed(config, batch_output, path, name, report)


def _check_followed(config: ModelConfig, batch_output: BatchOutput, path: str, name: str, report: Report) -> None:
    """Each open dimension of the output has one of the input to follow."""
    source = next((io for io in config.input if io.name in batch_output.source_input), None)
    target = next(io for io in config.output if io.name == name)
    if source is None or not source.dims or not target.dims:
        return
    ours, theirs = _seen(target), _seen(source)
    beyond = [index for index, dim in enumerate(ours) if dim == -1 and index >= len(theirs)]
    if beyond:
        message = (
            f"dimension {beyond[0]} of output '{name}' {shown(ours)} is that of input '{source.name}' by batch_output, "
            f"and the input has {shown(theirs)}"
        )
        report.error(path, message, "write a size for it, or name a source_input that has as many dimensions")


def _seen(io: "ModelInput | ModelOutput") -> Sequence[int]:
    return tuple(io.reshape.shape if io.HasField("reshape") else io.dims)


def _check_backend(config: ModelConfig, report: Report) -> None:
    what = "an ensemble" if config.platform == ENSEMBLE else f'backend "{config.backend}"'
    if config.backend not in _ONE_BY_ONE and config.platform != ENSEMBLE:
        return
    for field, does in (("batch_input", "makes no inputs of a batch"), ("batch_output", "scatters no outputs")):
        if getattr(config, field):
            message = f"{what} {does}: each request is taken by itself, and this has no effect"
            report.warn(f"{field}[0]", message, f"remove {field}")


def _check_sources(sources: Sequence[str], path: str, kind: str, inputs: Collection[str], report: Report) -> None:
    if not kind:
        report.error(f"{path}.kind", "there is no such kind", "write the name of a kind, as BATCH_ELEMENT_COUNT")
    elif len(sources) != 1:
        message = f"{kind} takes one source_input, got {len(sources)}"
        report.error(path, message, 'write source_input: "…", the input that it is made from')
    for name in sources:
        if name not in inputs:
            message = f"source_input names the input '{name}', and {_known(inputs)}"
            report.error(f"{path}.source_input", message, _meant("source_input", name, inputs))


def _meant(field: str, name: str, names: Collection[str]) -> str:
    near = get_close_matches(name, sorted(names), 1, 0.6)
    return f'write {field}: "{near[0]}"' if near else f"write one of the names, or add '{name}' to the configuration"


def _known(names: Collection[str]) -> str:
    return f"the model has {', '.join(sorted(names))}" if names else "the model has none"
