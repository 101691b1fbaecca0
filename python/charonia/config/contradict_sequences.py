"""Sequence controls and states against the model file: these tensors are among its inputs and outputs."""

from collections.abc import Sequence

from charonia.config.contradict_dims import check_dims
from charonia.config.given_elsewhere import CONTROL_DIMS, names_given_elsewhere
from charonia.config.model_tensor import OPEN, ModelTensor, fits, shown
from charonia.config.nearest import nearest
from charonia.config.places import Places
from charonia.config.report import Report
from charonia.config.schema import DataType, ModelConfig, ModelInput, ModelSequenceBatching
from charonia.core.datatypes import DATATYPES

_PAIR_TYPES = {
    "int32_false_true": DataType.TYPE_INT32,
    "fp32_false_true": DataType.TYPE_FP32,
    "bool_false_true": DataType.TYPE_BOOL,
}


def check_sequences(
    config: ModelConfig,
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
    fixed: set[str],
    model_file: str,
    places: Places,
    report: Report,
) -> None:
    """Report every control and state that the model does not have, or has as another datatype or shape.

    Args:
        fixed: tensors (`input x`) whose first dimension leaves no room for a batch, which was told.
    """
    check = _Check(config, fixed, model_file, places, report)
    batching = config.sequence_batching
    for index, control_input in enumerate(batching.control_input):
        path = f"sequence_batching.control_input[{index}]"
        tensor = check.find("input", "control", control_input.name, inputs, f"{path}.name")
        if tensor is not None:
            for number, control in enumerate(control_input.control):
                check.control(f"{path}.control[{number}]", control, tensor)
            check.control_dims(path, tensor)
    for index, state in enumerate(batching.state):
        path = f"sequence_batching.state[{index}]"
        taken = check.find("input", "state", state.input_name, inputs, f"{path}.input_name")
        given = check.find("output", "state", state.output_name, outputs, f"{path}.output_name")
        # Where the input differs from the configuration, so does the output, and it need not be told twice.
        if (taken is None or check.state(path, "input", state, taken)) and given is not None:
            check.state(path, "output", state, given)


def inputs_meant(config: ModelConfig, inputs: Sequence[ModelTensor]) -> set[str]:
    """Inputs of the model that a control or state probably means which has the name of none."""
    given, _ = names_given_elsewhere(config)
    names = [tensor.name for tensor in inputs]
    return {near for name in given.difference(names) if (near := nearest(name, names, 0.5))}


def unless_sent(config: ModelConfig, tensor: ModelTensor) -> str:
    """What to write for an input of the model if no client sends it, as the end of a remedy; "" without sequences."""
    if not config.HasField("sequence_batching"):
        return ""
    name = f'"{tensor.name}"'
    return (
        f' if clients send it; if not, in sequence_batching: state {{ input_name: {name} output_name: "…" }} for what '
        f"is kept between requests, or control_input {{ name: {name} control {{ kind: … }} }} for what the server tells"
    )


class _Check:
    def __init__(self, config: ModelConfig, fixed: set[str], model_file: str, places: Places, report: Report) -> None:
        self._config = config
        self._named = set().union(*names_given_elsewhere(config))
        self._named.update(io.name for io in config.input)
        self._named.update(io.name for io in config.output)
        self._fixed = fixed
        self._file = model_file
        self._places = places
        self._report = report

    def control(self, path: str, control: ModelSequenceBatching.Control, tensor: ModelTensor) -> None:
        field = next((field for field in _PAIR_TYPES if getattr(control, field)), "data_type")
        self._datatype(f"{path}.{field}", "control", _PAIR_TYPES.get(field, control.data_type), tensor)

    def control_dims(self, path: str, tensor: ModelTensor) -> None:
        """Nothing in the configuration can say another shape."""
        dims = (OPEN, *CONTROL_DIMS) if self._config.max_batch_size > 0 else CONTROL_DIMS
        is_scalar = self._config.max_batch_size == 0 and not tensor.dims
        if self._config.max_batch_size < 0 or is_scalar or fits(dims, tensor.dims) or self._is_fixed("input", tensor):
            return
        message = f"control '{tensor.name}' has one value for each request, {shown(dims)}, but {self._file} has "
        self._report.error(path, f"{message}{shown(tensor.dims)}", f"export the model with this input as {shown(dims)}")

    def state(self, path: str, kind: str, state: ModelSequenceBatching.State, tensor: ModelTensor) -> bool:
        """Whether nothing was found."""
        before = len(self._report.findings)
        self._datatype(f"{path}.data_type", "state", state.data_type, tensor)
        if not self._is_fixed(kind, tensor):
            io = ModelInput(name=tensor.name, dims=state.dims)
            check_dims(self._config, "state", path, io, tensor, self._file, self._places, self._report)
        return len(self._report.findings) == before

    def _is_fixed(self, kind: str, tensor: ModelTensor) -> bool:
        return f"{kind} {tensor.name}" in self._fixed

    def _datatype(self, path: str, what: str, number: int, tensor: ModelTensor) -> None:
        datatype = DATATYPES.get(tensor.datatype)
        if not number or datatype is None or number == datatype.number:
            return
        name = datatype.config_name
        message = f"{what} '{tensor.name}' is {DataType.Name(number)}, but {self._file} has {name}"  # type: ignore[arg-type]
        self._report.error(path, message, _remedy(path.rpartition(".")[2], name))

    def find(self, kind: str, what: str, name: str, tensors: Sequence[ModelTensor], path: str) -> ModelTensor | None:
        """The model's tensor of that name; reports that there is none."""
        names = [each.name for each in tensors]
        if name in names:
            return tensors[names.index(name)]
        message = f"{what} '{name}' is no {kind} of {self._file}; its {kind}s are {', '.join(names) or 'none'}"
        free = [each for each in names if each not in self._named]
        near, field = nearest(name, free, 0.5), path.rpartition(".")[2]
        other = f"write one of these names, or remove the {what}" if free else f"remove the {what}"
        self._report.error(path, message, f'write {field}: "{near}"' if near else other)
        return None


def _remedy(field: str, config_name: str) -> str:
    """What to write instead of `field` for a model's tensor of that datatype."""
    if field == "data_type":
        return f"write data_type: {config_name}"
    pair = next((field for field, number in _PAIR_TYPES.items() if DataType.Name(number) == config_name), "")
    if not pair:
        return "export the model with this input as INT32, FP32 or BOOL"
    return f"write {pair}: {'[ false, true ]' if pair == 'bool_false_true' else '[ 0, 1 ]'}"
