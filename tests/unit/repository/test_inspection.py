"""What is found without loading, and how it explains a load that failed."""

from pathlib import Path

import pytest

from charonia.backends.base import ServerFacts
from charonia.backends.placement import Devices
from charonia.backends.registry import BackendRegistry
from charonia.config.findings import ConfigError, Finding, Severity
from charonia.config.model_config import ConfigOptions
from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError, CharoniaError
from charonia.repository.inspection import (
    InspectionParts,
    VersionInspection,
    explained,
    inspect_files,
    inspect_version,
    read_model,
)
from charonia.repository.scan import scan
from tests.models import onnx_models
from tests.models.repository import write_config

PARTS = InspectionParts(BackendRegistry(None, {}), Devices((), 2), ServerFacts(), ConfigOptions())
FOUND = Finding(Severity.ERROR, "", None, "the file is empty", "copy it again")


def found_of(tmp_path: Path, config: str, *, gone: tuple[str, ...] = ()) -> list[str]:
    """The errors of a model with labels and warm-up data, less the files that are gone, as text."""
    onnx_models.save(onnx_models.mlp((4, 3)), tmp_path, "m")
    (tmp_path / "m" / "labels.txt").write_text("a\nb\nc\n")
    (tmp_path / "m" / "warmup").mkdir()
    (tmp_path / "m" / "warmup" / "sample").write_bytes(bytes(16))
    write_config(tmp_path, "m", config)
    for name in gone:
        (tmp_path / "m" / name).unlink()
    reading = read_model(scan([str(tmp_path)]).models["m"], PARTS.config)
    return [str(each) for each in (*reading.findings, *inspect_version(reading, 1, PARTS).findings)]


WHOLE = """
    max_batch_size: 4
    input [ { name: "input" data_type: TYPE_FP32 dims: [ 4 ] } ]
    output [ { name: "output" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" } ]
    model_warmup [
      { name: "one" batch_size: 1
        inputs { key: "input" value { data_type: TYPE_FP32 dims: [ 4 ] input_data_file: "sample" } } },
      { name: "two" batch_size: 9
        inputs { key: "input" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } }
    ]
    instance_group [ { kind: KIND_CPU } ]
"""
GOOD = WHOLE.replace("batch_size: 9", "batch_size: 2")


def test_nothing_is_found_in_a_good_model(tmp_path: Path) -> None:
    assert found_of(tmp_path, GOOD) == []


def test_everything_is_found_at_once(tmp_path: Path) -> None:
    config = WHOLE.replace("KIND_CPU", "KIND_GPU").replace("[ 3 ]", "[ 5 ]")
    found = found_of(tmp_path, config, gone=("labels.txt", "warmup/sample"))
    for place, said in (
        ("config.pbtxt:4:", "dims of output 'output' are [5]"),
        ("config.pbtxt:4:", f"there is no '{tmp_path}/m/labels.txt'"),
        ("config.pbtxt:6:", f"'{tmp_path}/m/warmup/sample', and there is no such file"),
        ("config.pbtxt:8:", "batch_size 9, expected at most 4"),
        ("config.pbtxt:11:", "KIND_GPU but no GPUs are available"),
    ):
        assert any(place in each and said in each for each in found)
    assert len(found) == 5


def test_gpus_of_a_cpu_group_are_told_once(tmp_path: Path) -> None:
    (found,) = found_of(tmp_path, GOOD.replace("kind: KIND_CPU", "kind: KIND_CPU gpus: [ 0 ]"))
    assert "config.pbtxt:11:35: instance group m_0 has kind KIND_CPU and lists gpus [0]" in found


def test_labels_beside_the_model_file_are_found_there(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "labels.txt").touch()
    (found,) = found_of(tmp_path, GOOD, gone=("labels.txt",))
    assert f"move '{tmp_path}/m/1/labels.txt' there" in found


def test_labels_of_another_number_than_classes(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "two.txt").write_text("a\nb\n")
    (found,) = found_of(tmp_path, GOOD.replace("labels.txt", "1/two.txt"))
    assert "'1/two.txt' has 2 labels, and output 'output' has 3 elements a row" in found


def test_files_are_looked_at_when_the_configuration_can_not_be_followed(tmp_path: Path) -> None:
    onnx_models.save(onnx_models.mlp((4, 3)), tmp_path, "m").write_bytes(b"")
    write_config(tmp_path, "m", "no_such_field: 1")
    reading = read_model(scan([str(tmp_path)]).models["m"], PARTS.config)
    assert reading.error is not None
    (found,) = inspect_files(reading, 1, PARTS)
    assert found == Finding(Severity.ERROR, "", found.place, "the file is empty", "copy it again")


def inspected(*findings: Finding) -> VersionInspection:
    return VersionInspection(ModelConfig(), False, findings)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (BackendError("it is no model"), "the file is empty; copy it again; the load said: it is no model"),
        (BackendError("it failed\n\nAt:\n  f"), "the file is empty; copy it again; the load said: it failed At: f"),
        (BackendError("m can't be loaded: the file is empty"), "the file is empty; copy it again"),
        (ConfigError([FOUND]), "the file is empty; copy it again"),
    ],
)
def test_what_explains_a_failed_load_stands_first(error: CharoniaError, text: str) -> None:
    assert str(explained(error, lambda: inspected(FOUND))) == text


def test_a_reason_in_other_words_is_not_told_twice() -> None:
    found = Finding(Severity.ERROR, "", None, "the module 'x' is not installed", cause="No module named 'x'")
    error = BackendError("importing m failed: ModuleNotFoundError: No module named 'x'")
    assert str(explained(error, lambda: inspected(found))) == "the module 'x' is not installed"
    other = BackendError("importing m failed: ModuleNotFoundError: No module named 'y'")
    assert "the load said: importing m failed" in str(explained(other, lambda: inspected(found)))


def test_what_nothing_explains_stays_as_it_is() -> None:
    error = BackendError("it is no model")
    assert explained(error, inspected) is error
    warning = Finding(Severity.WARNING, "", None, "it is slow")
    assert explained(error, lambda: inspected(warning)) is error


def test_a_fault_in_looking_hides_nothing() -> None:
    error = BackendError("it is no model")

    def fault() -> VersionInspection:
        raise ZeroDivisionError

    assert explained(error, fault) is error


STATES = """
    backend: "onnxruntime"
    max_batch_size: 4
    input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    sequence_batching {
      control_input [
        { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
        { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] }
      ]
      state [
        {
          input_name: "STATE" output_name: "NEXT" data_type: TYPE_INT32 dims: [ 1 ]
          initial_state [ { name: "i" data_type: TYPE_INT32 dims: [ 1 ] data_file: "start" } ]
        }
      ]
    }
"""


def states_of(tmp_path: Path, config: str = STATES, data: bytes | None = bytes(4)) -> list[str]:
    onnx_models.save(onnx_models.accumulator(), tmp_path, "m")
    (tmp_path / "m" / "initial_state").mkdir()
    if data is not None:
        (tmp_path / "m" / "initial_state" / "start").write_bytes(data)
    write_config(tmp_path, "m", config)
    reading = read_model(scan([str(tmp_path)]).models["m"], PARTS.config)
    return [str(each) for each in (*reading.findings, *inspect_version(reading, 1, PARTS).findings)]


@pytest.mark.parametrize("data", [bytes(4), bytes(9)])
def test_a_model_with_controls_and_states(tmp_path: Path, data: bytes) -> None:
    assert states_of(tmp_path, data=data) == []


@pytest.mark.parametrize(
    ("old", "new", "data", "place", "said"),
    [
        ("", "", None, "14:69", "/m/initial_state/start', and there is no such file"),
        ("", "", bytes(3), "14:69", "needs 4 bytes, '"),
        ('data_file: "start"', 'data_file: "../../start"', bytes(4), "14:69", "leads out of the model's folder"),
        ('"NEXT"', '"NEW"', bytes(4), "13:27", "state 'NEW' is no output of model.onnx; its outputs are OUTPUT, NEXT"),
        ('"READY"', '"REDAY"', bytes(4), "9:7", "control 'REDAY' is no input of model.onnx"),
        ('"i" data_type: TYPE_INT32', '"i" data_type: TYPE_FP32', bytes(4), "14:35", "has data_type TYPE_FP32"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_states(
    tmp_path: Path, old: str, new: str, data: bytes | None, place: str, said: str
) -> None:
    found = states_of(tmp_path, STATES.replace(old, new) if old else STATES, data)
    assert any(f"config.pbtxt:{place}: " in each and said in each for each in found), found
