"""Ragged batches in a configuration: what beyond Triton's rules can't be right, and what the model file contradicts."""

# One case a line reads best as a table.
# ruff: noqa: E501

from pathlib import Path

import pytest

from charonia.config.contradict import check_against_model
from charonia.config.model_config import ConfigOptions, load_config
from charonia.config.model_tensor import ModelTensor
from charonia.config.pbtxt import parse_pbtxt

IO = 'input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }'
CUSTOM = f'backend: "custom" {IO}'
STEP = 'model_name: "a" input_map { key: "i" value: "X" } output_map { key: "o" value: "Y" }'
ENSEMBLE = f'platform: "ensemble" {IO} ensemble_scheduling {{ step {{ {STEP} }} }}'


def findings(folder: Path, text: str, **options: object) -> dict[str, str]:
    """{path: "error: message; remedy"}"""
    (folder / "m" / "1").mkdir(parents=True)
    (folder / "m" / "config.pbtxt").write_text(text)
    found = load_config(folder / "m", "m", ConfigOptions(auto_complete=False, **options)).findings  # type: ignore[arg-type]
    return {each.path: f"{each.severity}: {each.message}; {each.remedy}" for each in found}


@pytest.mark.parametrize(
    ("text", "path", "phrase"),
    [
        (f'{CUSTOM} batch_input {{ data_type: TYPE_FP32 target_name: "X" source_input: "X" }}', "batch_input[0].target_name", "error: batch_input makes 'X', which is an input that requests bring"),
        (f'{CUSTOM} batch_input [ {{ data_type: TYPE_FP32 target_name: "N" source_input: "X" }}, {{ data_type: TYPE_INT32 target_name: "N" source_input: "X" }} ]', "batch_input[1].target_name", "error: two batch_inputs make 'N'"),
        (f'{CUSTOM} batch_input {{ data_type: TYPE_FP32 target_name: [ "N", "N" ] source_input: "X" }}', "batch_input[0].target_name", "error: two batch_inputs make 'N'"),
        (f'{CUSTOM} batch_output [ {{ target_name: "Y" source_input: "X" }}, {{ target_name: "Y" source_input: "X" }} ]', "batch_output[0].target_name", "error: batch_output names the output 'Y' twice"),
        ('backend: "custom" input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: [ 2, -1 ] } batch_output { target_name: "Y" source_input: "X" }', "batch_output[0]", "error: dimension 1 of output 'Y' [2, -1] is that of input 'X' by batch_output, and the input has [4]"),
        (f'backend: "python" {IO} batch_input {{ data_type: TYPE_FP32 target_name: "N" source_input: "X" }}', "batch_input[0]", 'warning: backend "python" makes no inputs of a batch'),
        (f'backend: "identity" {IO} batch_output {{ target_name: "Y" source_input: "X" }}', "batch_output[0]", 'warning: backend "identity" scatters no outputs'),
        (f'{ENSEMBLE} batch_output {{ target_name: "Y" source_input: "X" }}', "batch_output[0]", "warning: an ensemble scatters no outputs"),
    ],
)  # fmt: skip
def test_what_is_found(tmp_path: Path, text: str, path: str, phrase: str) -> None:
    found = findings(tmp_path, text)
    assert found[path].startswith(phrase)


def test_a_kind_that_there_is_not(tmp_path: Path) -> None:
    batch_io = '"batch_input": [{"kind": 17, "data_type": 11, "source_input": ["X"]}]'
    text = (
        '{"backend": "custom", "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}], '
        f'"output": [{{"name": "Y", "data_type": "TYPE_FP32", "dims": [4]}}], {batch_io}}}'
    )
    found = findings(tmp_path, "", override_json=text)
    assert any("kind" in path and message.startswith("error") for path, message in found.items()), found


RAGGED = 'max_batch_size: 4 input { name: "X" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true } output { name: "Y" data_type: TYPE_FP32 dims: -1 }'  # fmt: skip
X, Y = ModelTensor("X", "FP32", (-1,)), ModelTensor("Y", "FP32", (-1, -1))


@pytest.mark.parametrize(
    ("made", "tensor", "path", "phrase"),
    [
        ('target_name: "COUNT" data_type: TYPE_INT32', ModelTensor("COUNTS", "INT32", (-1,)), "batch_input[0].target_name", "batch_input makes 'COUNT', and the inputs of model.onnx are X, COUNTS; write target_name: \"COUNTS\""),
        ('target_name: "COUNT" data_type: TYPE_INT32', ModelTensor("COUNT", "FP32", (-1,)), "batch_input[0].data_type", "makes 'COUNT' with TYPE_INT32, and model.onnx has TYPE_FP32; write data_type: TYPE_FP32"),
        ('target_name: "COUNT" data_type: TYPE_INT32 kind: BATCH_ITEM_SHAPE', ModelTensor("COUNT", "INT32", (-1,)), "batch_input[0].kind", "BATCH_ITEM_SHAPE makes 'COUNT' with the shape [-1, -1], and model.onnx has [-1]"),
        ('target_name: "COUNT" data_type: TYPE_INT32', ModelTensor("COUNT", "INT32", (-1, 1)), "batch_input[0].kind", "BATCH_ELEMENT_COUNT makes 'COUNT' with the shape [-1], and model.onnx has [-1, 1]"),
    ],
)  # fmt: skip
def test_what_the_model_file_contradicts(made: str, tensor: ModelTensor, path: str, phrase: str) -> None:
    config = parse_pbtxt(f'{RAGGED} batch_input {{ {made} source_input: "X" }}'.encode(), "c").config
    found = check_against_model(config, [X, tensor], [Y], model_file="model.onnx")
    assert path in {each.path for each in found}
    (told,) = [each for each in found if each.path == path]
    assert phrase in f"{told.message}; {told.remedy}"


@pytest.mark.parametrize(
    ("kind", "dims"),
    [
        ("BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", (-1,)),
        ("BATCH_ITEM_SHAPE", (-1, -1)),
        ("BATCH_ITEM_SHAPE", (-1, 1)),
    ],
)
def test_what_the_model_file_agrees_with(kind: str, dims: tuple[int, ...]) -> None:
    made = f'target_name: "N" data_type: TYPE_FP32 kind: {kind} source_input: "X"'
    config = parse_pbtxt(f"{RAGGED} batch_input {{ {made} }}".encode(), "c").config
    assert check_against_model(config, [X, ModelTensor("N", "FP32", dims)], [Y], model_file="model.onnx") == []
