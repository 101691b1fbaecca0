"""A configuration that the model file contradicts: both sides, the place, and what to write."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.complete import ModelTensor, check_against_model
from charonia.config.pbtxt import parse_pbtxt

IMAGE = ModelTensor("image", "FP32", (-1, 3, 224, 224))
MASK = ModelTensor("mask", "INT64", (-1, 8))
SCORES = ModelTensor("scores", "FP32", (-1, 1000))
FIXED = ModelTensor("x", "FP32", (1, 16))
RESULT = ModelTensor("y", "FP32", (1, 4))
ROWS = ModelTensor("row", "FP32", (-1,))
SCALAR = ModelTensor("s", "FP32", ())

OUTPUT = 'output { name: "scores" data_type: TYPE_FP32 dims: 1000 }'


def check(text: str, inputs: list[ModelTensor], outputs: list[ModelTensor]) -> list[str]:
    document = parse_pbtxt(text, "m/config.pbtxt")
    found = check_against_model(document.config, inputs, outputs, model_file="model.onnx", places=document.places)
    return [str(finding) for finding in found]


def test_the_batch_dimension_in_dims_while_max_batch_size_is_set() -> None:
    text = f'max_batch_size: 16\ninput [\n  {{\n    name: "image"\n    data_type: TYPE_FP32\n    dims: [ -1, 3, 224, 224 ]\n  }}\n]\n{OUTPUT}'
    assert check(text, [IMAGE], [SCORES]) == [
        "m/config.pbtxt:6:5: dims of input 'image' are [-1, 3, 224, 224] with the batch dimension, but max_batch_size is 16 (line 1), "
        "which adds it: together [-1, -1, 3, 224, 224], and model.onnx has [-1, 3, 224, 224]; "
        "write dims: [3, 224, 224]; or, to keep the dims and serve without batching, max_batch_size: 0"
    ]


@pytest.mark.parametrize("first", [1, 16, -1])
def test_the_batch_dimension_may_have_been_written_as_any_size(first: int) -> None:
    text = f'max_batch_size: 16 input {{ name: "image" data_type: TYPE_FP32 dims: [ {first}, 3, 224, 224 ] }} {OUTPUT}'
    (found,) = check(text, [IMAGE], [SCORES])
    assert "with the batch dimension" in found
    assert "write dims: [3, 224, 224]" in found


def test_no_batch_dimension_in_dims_while_max_batch_size_is_0() -> None:
    text = 'max_batch_size: 0\ninput { name: "image" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }\noutput { name: "scores" data_type: TYPE_FP32 dims: [ -1, 1000 ] }'
    assert check(text, [IMAGE], [SCORES]) == [
        "m/config.pbtxt:2:44: dims of input 'image' are [3, 224, 224] without the batch dimension, but max_batch_size is 0 (line 1), "
        "so they must be the whole shape: model.onnx has [-1, 3, 224, 224]; "
        "write max_batch_size: 8 (or another limit above 0), or dims: [-1, 3, 224, 224]"
    ]


def test_no_batch_dimension_in_dims_while_max_batch_size_is_not_set() -> None:
    text = f'input {{ name: "image" data_type: TYPE_FP32 dims: [ -1, 3, 224, 224 ] }}\n{OUTPUT}'
    assert check(text, [IMAGE], [SCORES]) == [
        "m/config.pbtxt:2:46: dims of output 'scores' are [1000] without the batch dimension, but max_batch_size is not set, "
        "so they must be the whole shape: model.onnx has [-1, 1000]; "
        "write max_batch_size: 8 (or another limit above 0), or dims: [-1, 1000]"
    ]


def test_a_model_that_takes_no_batches() -> None:
    text = 'max_batch_size: 8\ninput { name: "x" data_type: TYPE_FP32 dims: [ 16 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }'
    assert check(text, [FIXED], [RESULT]) == [
        "m/config.pbtxt:1:1: max_batch_size is 8, but model.onnx takes no batches: the first dimension is not open in "
        "input 'x' [1, 16], output 'y' [1, 4]; "
        "write max_batch_size: 0 and the full shapes (dims: [1, 16] for input 'x'), or export the model with an open first dimension"
    ]


def test_a_fixed_batch_dimension_that_was_left_out() -> None:
    text = (
        'input { name: "x" data_type: TYPE_FP32 dims: [ 16 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 1, 4 ] }'
    )
    (found,) = check(text, [FIXED], [RESULT])
    assert found.endswith("model.onnx has [1, 16]; write dims: [1, 16]")


def batched(dims: str, more: str = "", data_type: str = "TYPE_FP32", name: str = "image") -> str:
    return f'max_batch_size: 8\ninput {{ name: "{name}" data_type: {data_type} dims: {dims} {more} }}\n{OUTPUT}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (batched("[ 3, 224, 256 ]"), "m/config.pbtxt:2:44: dims of input 'image' are [3, 224, 256], with the batch dimension [-1, 3, 224, 256], but model.onnx has [-1, 3, 224, 224] (dimension 3 is 224, not 256); write dims: [3, 224, 224]"),
        (batched("[ 3, -1, 224 ]"), "m/config.pbtxt:2:44: dims of input 'image' are [3, -1, 224], with the batch dimension [-1, 3, -1, 224], but model.onnx has [-1, 3, 224, 224] (dimension 2 is 224, not -1); write dims: [3, 224, 224]"),
        (batched("[ 224, 224 ]"), "m/config.pbtxt:2:44: dims of input 'image' are [224, 224], with the batch dimension [-1, 224, 224], but model.onnx has [-1, 3, 224, 224] (4 dimensions, not 3); write dims: [3, 224, 224]"),
        (batched("[ 150528 ]", "reshape { shape: [ 224, 224, 3 ] }"), "m/config.pbtxt:2:61: reshape of input 'image' is [224, 224, 3], with the batch dimension [-1, 224, 224, 3], but model.onnx has [-1, 3, 224, 224] (dimension 1 is 3, not 224); write reshape { shape: [3, 224, 224] }"),
        (batched("[ 3, 224, 224 ]", data_type="TYPE_FP16"), "m/config.pbtxt:2:23: data_type of input 'image' is TYPE_FP16, but model.onnx has TYPE_FP32; write data_type: TYPE_FP32"),
        (batched("[ 3, 224, 224 ]", name="imgae"), "m/config.pbtxt:2:9: model.onnx has no input 'imgae'; its inputs are image; write name: \"image\""),
        (batched("[ 3, 224, 224 ]", name="data"), "m/config.pbtxt:2:9: model.onnx has no input 'data'; its inputs are image; write name: \"image\""),
        (batched("[ 3, 224, 224 ]", "allow_ragged_batch: true"), "m/config.pbtxt:2:66: input 'image' has allow_ragged_batch, which needs the shape [-1]; model.onnx has [-1, 3, 224, 224]; remove allow_ragged_batch, or change the model"),
    ],
)  # fmt: skip
def test_one_contradiction(text: str, expected: str) -> None:
    assert check(text, [IMAGE], [SCORES]) == [expected]


def test_an_input_that_was_left_out() -> None:
    text = batched("[ 3, 224, 224 ]")
    assert check(text, [IMAGE, MASK], [SCORES]) == [
        "m/config.pbtxt:2:1: model.onnx has the input 'mask', which the configuration leaves out; "
        'add input { name: "mask" data_type: TYPE_INT64 dims: [8] }'
    ]


def test_an_input_too_many() -> None:
    text = f'{batched("[ 3, 224, 224 ]")}\ninput {{ name: "other" data_type: TYPE_FP32 dims: 1 }}'
    assert check(text, [IMAGE], [SCORES]) == [
        "m/config.pbtxt:4:9: model.onnx has no input 'other'; its inputs are image; write one of these names"
    ]


def test_an_output_among_the_inputs() -> None:
    text = f'{batched("[ 3, 224, 224 ]")}\ninput {{ name: "scores" data_type: TYPE_FP32 dims: 1 }}'
    (found,) = check(text, [IMAGE], [SCORES])
    assert found.endswith("'scores' is an output of the model: move it from input to output")


def test_inputs_and_outputs_that_are_swapped_are_said_once_each() -> None:
    text = (
        'input { name: "scores" data_type: TYPE_FP32 dims: 1 }\noutput { name: "image" data_type: TYPE_FP32 dims: 1 }'
    )
    first, second = check(text, [IMAGE], [SCORES])
    assert first.endswith("move it from input to output")
    assert second.endswith("move it from output to input")


def test_all_contradictions_at_once_each_with_its_place() -> None:
    text = 'max_batch_size: 8\ninput [ { name: "imag" data_type: TYPE_FP32 dims: 3 },\n{ name: "mask" data_type: TYPE_INT32 dims: [ 1, 8 ] } ]\noutput { name: "score" data_type: TYPE_FP32 dims: 1000 }'
    places = [found.split(" ")[0] for found in check(text, [IMAGE, MASK], [SCORES])]
    assert places == [f"m/config.pbtxt:{where}:" for where in ("2:11", "4:10", "3:16", "3:38")]


@pytest.mark.parametrize(
    ("text", "inputs", "outputs"),
    [
        pytest.param(batched("[ 3, 224, 224 ]"), [IMAGE], [SCORES, RESULT], id="not every output is needed"),
        pytest.param('input { name: "image" data_type: TYPE_FP32 dims: [ 2, 3, 224, 224 ] } output { name: "scores" data_type: TYPE_FP32 dims: [ 2, 1000 ] }', [IMAGE], [SCORES], id="a narrower shape"),
        pytest.param(batched("[ 150528 ]", "reshape { shape: [ 3, 224, 224 ] }"), [IMAGE], [SCORES], id="a reshape into the model's shape"),
        pytest.param('max_batch_size: 2 input { name: "row" data_type: TYPE_FP32 dims: 1 reshape { shape: [ ] } } output { name: "row" data_type: TYPE_FP32 dims: 1 reshape { shape: [ ] } }', [ROWS], [ROWS], id="a scalar for each row"),
        pytest.param('input { name: "s" data_type: TYPE_FP32 dims: 1 } output { name: "s" data_type: TYPE_FP32 dims: [ 1, 1 ] }', [SCALAR], [SCALAR], id="a scalar"),
        pytest.param('max_batch_size: 2 input { name: "row" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true } output { name: "scores" data_type: TYPE_FP32 dims: 1000 }', [ROWS], [SCORES], id="ragged rows"),
        pytest.param(batched("[ 3, 224, 224 ]"), [IMAGE, ModelTensor("mask", "INT64", (4,), optional=True)], [SCORES], id="an input with a default may be left out"),
        pytest.param('max_batch_size: 2 input { name: "row" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true } batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "count" data_type: TYPE_FP32 source_input: "row" } output { name: "scores" data_type: TYPE_FP32 dims: 7 } batch_output { target_name: "scores" source_input: "row" }', [ROWS, ModelTensor("count", "FP32", (-1,))], [SCORES], id="batch input and output"),
    ],
)  # fmt: skip
def test_what_is_no_contradiction(text: str, inputs: list[ModelTensor], outputs: list[ModelTensor]) -> None:
    assert check(text, inputs, outputs) == []


def test_a_scalar_that_is_no_scalar_in_the_configuration() -> None:
    text = 'input { name: "s" data_type: TYPE_FP32 dims: 3 } output { name: "s" data_type: TYPE_FP32 dims: 1 }'
    assert check(text, [SCALAR], [SCALAR]) == [
        "m/config.pbtxt:1:40: dims of input 's' are [3], but model.onnx has a scalar; write dims: [1]"
    ]


def test_dims_are_not_judged_by_a_max_batch_size_that_is_wrong() -> None:
    text = f'max_batch_size: -1 input {{ name: "image" data_type: TYPE_FP64 dims: [ 3, 224, 224 ] }} {OUTPUT}'
    (found,) = check(text, [IMAGE], [SCORES])
    assert "data_type of input 'image' is TYPE_FP64" in found
