"""Rules for the states that the server keeps for a sequence between its requests."""

from collections.abc import Sequence

from charonia.config.report import Report
from charonia.config.schema import DataType, ModelConfig, ModelSequenceBatching

State = ModelSequenceBatching.State
InitialState = ModelSequenceBatching.InitialState


def check_states(config: ModelConfig, report: Report, *, is_complete: bool) -> None:
    """`is_complete` False: the datatype and the dims of a state may still come from the model file."""
    seen: dict[str, str] = {}
    _check_sent(config, report)
    for index, state in enumerate(config.sequence_batching.state):
        path = f"sequence_batching.state[{index}]"
        for field in ("input_name", "output_name"):
            _check_name(state, field, path, seen, report)
        if is_complete and state.data_type == 0:
            remedy = "write data_type: TYPE_FP32, or what the model has"
            report.error(path, f"state '{state.input_name}' has no data_type", remedy)
        _check_memory(state, path, report)
        _check_initial(state, path, report)


def _check_sent(config: ModelConfig, report: Report) -> None:
    """Clients would have to send what the server gives."""
    inputs, batching = {io.name for io in config.input}, config.sequence_batching
    controls = [("control", each.name, f"control_input[{i}].name") for i, each in enumerate(batching.control_input)]
    states = [("state", each.input_name, f"state[{i}].input_name") for i, each in enumerate(batching.state)]
    for kind, name, path in (*controls, *states):
        if name in inputs:
            message = f"{kind} '{name}' is also an input: what a client sends for it is never used"
            report.warn(f"sequence_batching.{path}", message, f"remove the input '{name}'")


def _check_name(state: State, field: str, path: str, seen: dict[str, str], report: Report) -> None:
    name = str(getattr(state, field))
    if not name:
        kind = field.removesuffix("_name")
        report.error(path, f"a state has no {field}", f'write {field}: "…", the {kind} of the model that holds it')
        return
    key, here = f"{field} {name}", f"{path}.{field}"
    earlier = seen.setdefault(key, here)
    if earlier != here:
        message = f"two states have the {field} '{name}'{report.line_of(earlier)}"
        report.error(here, message, "give each its own tensors")


def _check_memory(state: State, path: str, report: Report) -> None:
    if state.use_growable_memory and not state.use_same_buffer_for_input_output:
        who = f"state '{state.input_name}' has use_growable_memory"
        message = f"{who}, which needs one buffer for the input and the output"
        path = f"{path}.use_growable_memory"
        report.error(path, message, "write use_same_buffer_for_input_output: true beside it")


def _check_initial(state: State, path: str, report: Report) -> None:
    who = f"initial_state of state '{state.input_name}'"
    if len(state.initial_state) > 1:
        message = f"state '{state.input_name}' has {len(state.initial_state)} initial_states, expected at most 1"
        report.error(f"{path}.initial_state[1]", message, "keep one of them")
    for number, initial in enumerate(state.initial_state[:1]):
        at = f"{path}.initial_state[{number}]"
        if not initial.name:
            report.error(at, f"{who} has no name", 'write name: "…", any word')
        if initial.data_type != state.data_type:
            got, wanted = DataType.Name(initial.data_type), DataType.Name(state.data_type)
            message = f"{who} has data_type {got}, and the state has {wanted}{report.line_of(f'{path}.data_type')}"
            report.error(f"{at}.data_type", message, f"write data_type: {wanted}")
        if initial.WhichOneof("state_data") is None:
            message = f"{who} says neither zero_data nor data_file"
            report.error(at, message, 'write zero_data: true, or data_file: "…"')
        _check_dims(initial.dims, state.dims, who, f"{at}.dims", report)


def _check_dims(dims: Sequence[int], wanted: Sequence[int], who: str, path: str, report: Report) -> None:
    message = f"{who} has dims {list(dims)}, and the state has {list(wanted)}"
    if any(dim < 0 for dim in dims):
        report.error(path, f"{message}: an initial state has fixed sizes", "write a size of 0 or more for each")
    elif len(dims) != len(wanted) or any(wish not in (-1, dim) for dim, wish in zip(dims, wanted, strict=True)):
        report.error(path, message, "make the two agree")
