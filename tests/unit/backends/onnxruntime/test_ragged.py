"""Models with ragged batches, which are not served yet: the load warns, and each request is told why it fails."""

from typing import Any

import numpy as np
import onnx_models
import pytest

from charonia.core.errors import Code

FLAT = "data_type: TYPE_FP32 dims: [ -1 ]"
RAGGED = f'input {{ name: "INPUT0" {FLAT} allow_ragged_batch: true }} output {{ name: "OUTPUT0" {FLAT} }}'
SCATTERED = 'batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "OUTPUT0" source_input: "INPUT0" }'
COUNTED = 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "INPUT1" data_type: TYPE_FP32 source_input: "INPUT0" }'
ROW = {"INPUT0": np.zeros((1, 3), np.float32)}


@pytest.mark.parametrize("count", [1, 2])
def test_requests_are_unimplemented_and_the_load_warns(serve: Any, log: Any, count: int) -> None:
    runner = serve(onnx_models.identity("FP32", ["N"]), f"max_batch_size: 4 {RAGGED} {SCATTERED}")
    (warning,) = log.of("warning")
    for named in ("model 'm'", "batch_output[0], input['INPUT0'].allow_ragged_batch", "not served yet"):
        assert named in warning
    assert runner.instance.healthy
    replies = runner.run(*[ROW] * count)
    assert [reply.error.code for reply in replies] == [Code.UNIMPLEMENTED] * count
    assert "ragged batches of ONNX models (batch_output[0], input['INPUT0'].allow_ragged_batch)" in str(
        replies[0].error
    )


def test_batch_inputs_need_ragged_batches_too(serve: Any, log: Any) -> None:
    config = f'max_batch_size: 4 {COUNTED} input {{ name: "INPUT0" {FLAT} }} output {{ name: "OUTPUT0" {FLAT} }}'
    runner = serve(onnx_models.add_sub("FP32", ["N", "M"]), config)
    assert "batch_input[0]" in log.of("warning")[0]
    assert runner.run(ROW)[0].error.code == Code.UNIMPLEMENTED


def test_without_batches_nothing_can_be_ragged(serve: Any, log: Any) -> None:
    runner = serve(onnx_models.identity("FP32", ["N"]), RAGGED)
    (outputs,) = runner.arrays({"INPUT0": np.arange(3, dtype=np.float32)})
    assert outputs["OUTPUT0"].tolist() == [0, 1, 2]
    assert log.of("warning") == []
