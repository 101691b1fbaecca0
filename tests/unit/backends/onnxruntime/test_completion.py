"""`max_batch_size` and batching, as `--backend-config` and the model say."""

from pathlib import Path
from typing import Any

import onnx_models
import pytest

from charonia.backends.onnxruntime import OnnxRuntimeBackend
from charonia.backends.registry import BackendRegistry
from charonia.core.errors import CharoniaError, InvalidArgumentError

CONFIG = 'name: "m" backend: "onnxruntime" '


@pytest.mark.parametrize(
    ("settings", "written", "size", "batches"),
    [
        ({}, "", 4, True),
        ({"": {"default-max-batch-size": "16"}}, "", 16, True),
        ({"": {"default-max-batch-size": "16"}, "onnxruntime": {"default-max-batch-size": "2"}}, "", 2, True),
        ({"onnxruntime": {"default-max-batch-size": "1"}}, "", 1, False),
        ({"onnxruntime": {"default-max-batch-size": "0"}}, "", 0, False),
        ({"python": {"default-max-batch-size": "9"}}, "", 4, True),
        ({"": {"default-max-batch-size": "16"}}, "max_batch_size: 3", 3, True),
        ({}, "max_batch_size: 1", 1, False),
    ],
)
def test_the_default_of_one_backend_goes_before_that_of_all(
    tmp_path: Path, context_for: Any, parse: Any, settings: Any, written: str, size: int, batches: bool
) -> None:
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "m")
    merged = BackendRegistry(None, settings, {}).config_for("onnxruntime")
    context = context_for(parse(CONFIG + written), **merged)
    config = OnnxRuntimeBackend().complete_config(context)
    assert (config.max_batch_size, config.HasField("dynamic_batching")) == (size, batches)
    assert list(config.input[0].dims) == ([16] if size else [-1, 16])
    reasons = {completion.path: completion.reason for completion in context.completions}
    assert ("max_batch_size" in reasons) is (not written and size > 0)
    assert reasons["input[0]"] == "from model.onnx"


def test_a_model_that_takes_one_row_is_not_batched(tmp_path: Path, context_for: Any, parse: Any) -> None:
    onnx_models.save(onnx_models.identity("FP32", [1, 16]), tmp_path, "m")
    config = OnnxRuntimeBackend().complete_config(context_for(parse(CONFIG), **{"default-max-batch-size": "8"}))
    assert (config.max_batch_size, config.HasField("dynamic_batching")) == (0, False)
    with pytest.raises(CharoniaError, match=r"max_batch_size is 8, but model\.onnx takes no batches"):
        OnnxRuntimeBackend().complete_config(context_for(parse(f"{CONFIG} max_batch_size: 8")))


@pytest.mark.parametrize("setting", ["many", "-1", "1.5", ""])
def test_a_default_that_is_no_number_is_named(tmp_path: Path, context_for: Any, parse: Any, setting: str) -> None:
    onnx_models.save(onnx_models.identity(), tmp_path, "m")
    with pytest.raises(InvalidArgumentError, match=f"default-max-batch-size={setting}: expected a whole number"):
        OnnxRuntimeBackend().complete_config(context_for(parse(CONFIG), **{"default-max-batch-size": setting}))


def test_single_datatypes_and_dims_that_are_missing_come_from_the_model(
    tmp_path: Path, context_for: Any, parse: Any
) -> None:
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "m")
    text = 'max_batch_size: 2 input { name: "INPUT0" dims: [ 16 ] } output { name: "OUTPUT0" data_type: TYPE_FP32 }'
    context = context_for(parse(CONFIG + text))
    config = OnnxRuntimeBackend().complete_config(context)
    assert (config.input[0].data_type, list(config.output[0].dims)) == (11, [16])
    assert [str(each) for each in context.completions if "[" in each.path] == [
        "input[0].data_type: TYPE_FP32 (from model.onnx)",
        "output[0].dims: [16] (from model.onnx)",
    ]
