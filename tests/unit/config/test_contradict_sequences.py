"""Sequence controls and states that the model file contradicts, and what is completed beside them."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.complete import Completed, complete_from_model
from charonia.config.model_tensor import ModelTensor
from charonia.config.pbtxt import parse_pbtxt

AUDIO = ModelTensor("audio", "FP32", (-1, 576))
START = ModelTensor("start", "BOOL", (-1, 1))
ID = ModelTensor("id", "INT64", (-1, 1))
STATE = ModelTensor("state", "FP16", (-1, -1, 128))
SPEECH = ModelTensor("speech", "FP32", (-1, 1))
NEXT = ModelTensor("state_next", "FP16", (-1, -1, 128))

IO = 'input { name: "audio" data_type: TYPE_FP32 dims: [ 576 ] } output { name: "speech" data_type: TYPE_FP32 dims: [ 1 ] }'
SEQUENCES = """
sequence_batching {
control_input { name: "start" control { kind: CONTROL_SEQUENCE_START bool_false_true: [ false, true ] } }
control_input { name: "id" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } }
state { input_name: "state" output_name: "state_next" data_type: TYPE_FP16 dims: [ -1, 128 ] }
}"""


def complete(text: str, **other: ModelTensor) -> Completed:
    document = parse_pbtxt(text, "m/config.pbtxt")
    inputs = [other.get(each.name, each) for each in (AUDIO, START, ID, STATE)]
    outputs = [other.get(each.name, each) for each in (SPEECH, NEXT)]
    return complete_from_model(document.config, inputs, outputs, model_file="model.onnx", places=document.places)


def check(text: str, **other: ModelTensor) -> list[str]:
    return [str(finding).partition("\n")[0] for finding in complete(text, **other).findings]


@pytest.mark.parametrize("io", ["", IO])
def test_controls_and_states_are_neither_missed_nor_added(io: str) -> None:
    completed = complete(f"max_batch_size: 4 {io} {SEQUENCES}")
    assert completed.findings == ()
    assert [io.name for io in completed.config.input] == ["audio"]
    assert [io.name for io in completed.config.output] == ["speech"]


def test_a_state_may_also_be_an_output() -> None:
    more = 'output { name: "state_next" data_type: TYPE_FP16 dims: [ -1, 128 ] }'
    assert check(f"max_batch_size: 4 {IO} {more} {SEQUENCES}") == []


@pytest.mark.parametrize(("size", "dims"), [(4, [-1, 128]), (0, [-1, -1, 128])])
def test_what_a_state_leaves_open_comes_from_the_model(size: int, dims: list[int]) -> None:
    text = SEQUENCES.replace("data_type: TYPE_FP16 dims: [ -1, 128 ]", "")
    io = IO if size else IO.replace("[ 576 ]", "[ -1, 576 ]").replace("[ 1 ]", "[ -1, 1 ]")
    completed = complete(
        f"max_batch_size: {size} {io} {text}",
        start=ModelTensor("start", "BOOL", (1,)),
        id=ModelTensor("id", "INT64", (1,)),
    )
    (state,) = completed.config.sequence_batching.state
    assert (state.data_type, list(state.dims)) == (10, dims)
    assert [(each.path, each.value) for each in completed.completions][:2] == [
        ("sequence_batching.state[0].data_type", "TYPE_FP16"),
        ("sequence_batching.state[0].dims", f"[{', '.join(map(str, dims))}]"),
    ]


# what replaces what in the configuration, tensors of the model that are others, where it is said, what is said
ROWS: dict[str, tuple[str, str, dict[str, ModelTensor], str, str]] = {
    "control without a tensor": ('name: "start"', 'name: "begin"', {}, "3:17", "control 'begin' is no input of model.onnx; its inputs are audio, start, id, state"),
    "control of another datatype": ("", "", {"start": ModelTensor("start", "INT32", (-1, 1))}, "3:70", "control 'start' is TYPE_BOOL, but model.onnx has TYPE_INT32; write int32_false_true: [ 0, 1 ]"),
    "control of a datatype that none has": ("", "", {"start": ModelTensor("start", "FP64", (-1, 1))}, "3:70", "control 'start' is TYPE_BOOL, but model.onnx has TYPE_FP64; export the model with this input as INT32, FP32 or BOOL"),
    "id of another datatype": ("TYPE_INT64", "TYPE_UINT64", {}, "4:68", "control 'id' is TYPE_UINT64, but model.onnx has TYPE_INT64; write data_type: TYPE_INT64"),
    "control of another shape": ("", "", {"start": ModelTensor("start", "BOOL", (-1,))}, "3:1", "control 'start' has one value for each request, [-1, 1], but model.onnx has [-1]; export the model with this input as [-1, 1]"),
    "state without an input": ('input_name: "state"', 'input_name: "stat"', {}, "5:9", "state 'stat' is no input of model.onnx; its inputs are audio, start, id, state; write input_name: \"state\""),
    "state without an output": ('"state_next"', '"nextt"', {}, "5:29", "state 'nextt' is no output of model.onnx; its outputs are speech, state_next; write"),
    "state of another datatype": ("TYPE_FP16", "TYPE_FP32", {}, "5:55", "state 'state' is TYPE_FP32, but model.onnx has TYPE_FP16; write data_type: TYPE_FP16"),
    "state's output of another datatype": ("", "", {"state_next": ModelTensor("state_next", "FP32", (-1, -1, 128))}, "5:55", "state 'state_next' is TYPE_FP16, but model.onnx has TYPE_FP32"),
    "state with the batch dimension": ("[ -1, 128 ]", "[ -1, -1, 128 ]", {}, "5:76", "dims of state 'state' are [-1, -1, 128] with the batch dimension, but max_batch_size is 4"),
    "state of another size": ("[ -1, 128 ]", "[ -1, 64 ]", {}, "5:76", "dims of state 'state' are [-1, 64], with the batch dimension [-1, -1, 64], but model.onnx has [-1, -1, 128] (dimension 2 is 128, not 64)"),
    "state that can't batch": ("", "", {"state": ModelTensor("state", "FP16", (2, -1, 128))}, "1:1", "max_batch_size is 4, but model.onnx takes no batches: the first dimension is not open in input 'state' [2, -1, 128]"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_contradiction(row: str) -> None:
    old, new, other, place, said = ROWS[row]
    text = f"max_batch_size: 4 {IO}{SEQUENCES.replace(old, new) if old else SEQUENCES}"
    found = check(text, **other)
    assert any(each.startswith(f"m/config.pbtxt:{place}: {said}") for each in found), found


def test_a_control_that_the_model_does_not_have() -> None:
    """No other tensor is meant by it: each has a place of its own."""
    document = parse_pbtxt(f"max_batch_size: 4 {IO}{SEQUENCES}", "m/config.pbtxt")
    completed = complete_from_model(
        document.config, [AUDIO, ID, STATE], [SPEECH, NEXT], model_file="model.onnx", places=document.places
    )
    assert [finding.remedy for finding in completed.findings] == ["remove the control"]


@pytest.mark.parametrize("without", ["state", "control_input"])
def test_an_input_that_stands_nowhere_may_be_a_state_or_a_control(without: str) -> None:
    lines = [line for line in SEQUENCES.split("\n") if not line.startswith(without)]
    names = {"state": ["state"], "control_input": ["start", "id"]}[without]
    found = check("\n".join([f"max_batch_size: 4 {IO}", *lines]))
    assert len(found) == len(names)
    for said, name in zip(found, names, strict=True):
        assert f"has the input '{name}', which the configuration leaves out; add input {{ name: \"{name}\"" in said
        assert f'state {{ input_name: "{name}" output_name: "…" }} for what is kept between requests' in said
        assert f'control_input {{ name: "{name}" control {{ kind: … }} }} for what the server tells' in said


def test_an_input_of_a_model_without_sequences_is_sent() -> None:
    (said, *_) = check(f"max_batch_size: 4 {IO}")
    assert said.endswith('add input { name: "start" data_type: TYPE_BOOL dims: [1] }')


def test_a_misspelt_name_is_told_once() -> None:
    sequences = SEQUENCES.replace('input_name: "state"', 'input_name: "stat"')
    (found,) = check(f"max_batch_size: 4 {IO}{sequences}")
    assert found.endswith('write input_name: "state"')


@pytest.mark.parametrize(("old", "new"), [("TYPE_FP16", "TYPE_FP32"), ("[ -1, 128 ]", "[ -1, 64 ]")])
def test_one_mistake_of_a_state_is_told_once(old: str, new: str) -> None:
    assert len(check(f"max_batch_size: 4 {IO}{SEQUENCES.replace(old, new)}")) == 1


def test_what_fits_has_no_controls_and_states_among_the_inputs() -> None:
    (finding,) = complete(f"max_batch_size: 4 {IO}{SEQUENCES.replace('TYPE_INT64', 'TYPE_UINT64')}").findings
    assert finding.snippet.split("\n") == [
        "    what fits model.onnx:",
        "      max_batch_size: 4",
        '      input { name: "audio" data_type: TYPE_FP32 dims: [576] }',
        '      output { name: "speech" data_type: TYPE_FP32 dims: [1] }',
    ]
