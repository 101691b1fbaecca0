"""`charonia check` on ensembles: the models of their steps are looked at as far as they are there; the graph."""

import json
from pathlib import Path

import pytest

from charonia.cli.check import run_check
from tests.models import onnx_models
from tests.models.repository import write_config


def test_steps_are_compared_with_the_models_that_they_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The inputs and outputs of `net` stand in no configuration: its file tells them."""
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "net")
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "classifier")
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
          step { model_name: "classifer" input_map { key: "a" value: "OUT" } output_map { key: "b" value: "c" } }
        }
    """
    (write_config(tmp_path, "all", config) / "1").mkdir()
    run_check([str(tmp_path)], ("all",), load=False, as_json=False, strict=False)
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "'IN' has the shape [-1, 16] as input 'INPUT0' of step 1 ('net'), and [-1, 17] as input 'IN' of the ensemble",
        "step 1 ('net') has no output 'OUTPUT' for the ensemble tensor 'OUT'; its outputs are OUTPUT0",
        'write key: "OUTPUT0"',
        'write model_name: "classifier"',
    ):
        assert words in shown


IDENTITY = """
    backend: "identity"
    max_batch_size: 8
    input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
PAIR = """
    backend: "identity"
    input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, -1 ] }, { name: "z" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]
    output { name: "y" data_type: TYPE_FP32 dims: [ -1, -1 ] }
"""
DIAMOND = """
    max_batch_size: 8
    input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
    ensemble_scheduling {
      step {
        model_name: "pair"
        input_map [ { key: "x" value: "left" }, { key: "z" value: "right" } ]
        output_map { key: "y" value: "OUT" }
      }
      step { model_name: "one" input_map { key: "x" value: "IN" } output_map { key: "y" value: "left" } }
      step {
        model_name: "two" model_version: 1
        input_map { key: "x" value: "IN" } output_map { key: "y" value: "right" }
      }
    }
"""


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    """Two steps side by side, and one that takes both; it stands first."""
    for name, config in (("one", IDENTITY), ("two", IDENTITY), ("pair", PAIR), ("all", DIAMOND)):
        (write_config(tmp_path, name, config) / "1").mkdir()
    return tmp_path


def test_the_graph_for_people(diamond: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check([str(diamond)], ("all",), load=False, as_json=False, strict=True) == 0
    assert capsys.readouterr().out.splitlines() == [
        "all",
        "  inputs:  IN FP32 [-1, -1]",
        "  1. side by side:",
        "     - one (step 2): IN → left FP32 [-1, -1]",
        "     - two version 1 (step 3): IN → right FP32 [-1, -1]",
        "  2. pair (step 1): left, right → OUT FP32 [-1, -1]",
        "  outputs: OUT",
        "",
        "1 model checked: nothing to say",
    ]


def test_what_follows_a_decoupled_step_runs_for_each_of_its_responses(
    diamond: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(diamond, "one", IDENTITY + "model_transaction_policy { decoupled: true }")
    chain = DIAMOND.replace('value: "right" }', 'value: "left" }', 1).rpartition("step {")[0] + "}"
    write_config(diamond, "all", chain)
    run_check([str(diamond)], ("all",), load=False, as_json=False, strict=True)
    shown = capsys.readouterr().out
    assert "  1. one (step 2): IN → left FP32 [-1, -1]; what follows runs for each of its responses" in shown
    assert "  2. pair (step 1): left → OUT FP32 [-1, -1]" in shown


def test_the_graph_for_machines(diamond: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check([str(diamond)], ("all",), load=True, as_json=True, strict=True) == 0
    document = json.loads(capsys.readouterr().out)
    (model,) = document["models"]
    assert model["graph"] == {
        "inputs": ["IN"],
        "outputs": ["OUT"],
        "stages": [
            [
                _step(2, "one", {"x": "IN"}, {"y": "left"}),
                _step(3, "two", {"x": "IN"}, {"y": "right"}, 1),
            ],
            [_step(1, "pair", {"x": "left", "z": "right"}, {"y": "OUT"})],
        ],
        "tensors": [{"name": name, "datatype": "FP32", "shape": [-1, -1]} for name in ("IN", "left", "right", "OUT")],
    }
    assert [(each["model"], each["loaded"]) for each in document["loads"]] == [("all", True)]


def _step(
    number: int, model: str, inputs: dict[str, str], outputs: dict[str, str], version: int | None = None
) -> dict[str, object]:
    facts: dict[str, object] = {"step": number, "model": model, "version": version, "decoupled": False}
    return facts | {"inputs": inputs, "outputs": outputs}


def test_a_graph_that_does_not_hang_together_is_shown_as_far_as_it_does(
    diamond: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = DIAMOND.replace('value: "left" }, {', 'value: "lost" }, {')
    write_config(diamond, "all", config)
    assert run_check([str(diamond)], ("all",), load=False, as_json=False, strict=True) == 1
    shown = capsys.readouterr().out
    assert "     - one (step 2): IN → left FP32 [-1, -1]" in shown
    assert "pair (step 1)" not in shown
    assert "the ensemble tensor 'lost' is read by step 1 ('pair'), but neither an input nor written by a step" in shown


def test_an_ensemble_without_a_version_folder(diamond: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (diamond / "all" / "1").rmdir()
    assert run_check([str(diamond)], ("all",), load=False, as_json=False, strict=True) == 1
    assert f"fix: make the folder '{diamond}/all/1'; it stays empty: an ensemble has no file" in " ".join(
        capsys.readouterr().out.split()
    )
