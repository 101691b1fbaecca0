"""`charonia check` on ensembles: the models of their steps are looked at, as far as they are there."""

from pathlib import Path

import pytest

from charonia.cli.check import run_check
from tests.models import onnx_models
from tests.models.repository import write_config


def test_steps_are_compared_with_the_models_that_they_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The inputs and outputs of `net` stand in no configuration: its file tells them."""
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "net")
    config = """
        platform: "ensemble"
        max_batch_size: 4
        input { name: "IN" data_type: TYPE_FP32 dims: [ 17 ] }
        output { name: "OUT" data_type: TYPE_FP32 dims: [ 16 ] }
        ensemble_scheduling {
          step {
            model_name: "net"
            input_map { key: "INPUT0" value: "IN" }
            output_map { key: "OUTPUT" value: "OUT" }
          }
          step { model_name: "nett" input_map { key: "a" value: "OUT" } output_map { key: "b" value: "c" } }
        }
    """
    (write_config(tmp_path, "all", config) / "1").mkdir()
    run_check([str(tmp_path)], ("all",), load=False, as_json=False, strict=False)
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "'IN' has the shape [-1, 16] as input 'INPUT0' of step 1 ('net'), and [-1, 17] as input 'IN' of the ensemble",
        "step 1 ('net') has no output 'OUTPUT' for the ensemble tensor 'OUT'; its outputs are OUTPUT0",
        'write key: "OUTPUT0"',
        'write model_name: "net"',
    ):
        assert words in shown
