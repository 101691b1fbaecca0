"""From a model folder to its configuration: which file, what when it is missing or wrong, and after the backend."""

# One case a line reads best as a table.
# ruff: noqa: E501

import errno
import os
from pathlib import Path

import pytest

from charonia.config.findings import ConfigError
from charonia.config.io import io_specs
from charonia.config.model_config import ConfigOptions, finish_config, load_config
from charonia.config.schema import ModelConfig


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tmp_path / "m"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.onnx").touch()
    return model


def test_without_a_file_the_model_file_tells_the_backend(folder: Path) -> None:
    loaded = load_config(folder, "m", ConfigOptions())
    loaded.raise_on_errors()
    assert (loaded.config.backend, loaded.source) == ("onnxruntime", "")
    assert loaded.findings == ()
    assert [completion.path for completion in loaded.completions][:2] == ["name", "backend"]


def test_findings_without_a_file_say_so(folder: Path) -> None:
    loaded = finish_config(
        load_config(folder, "m", ConfigOptions()), ModelConfig(name="m", max_batch_size=-1), ConfigOptions()
    )
    assert str(loaded.errors[0]) == (
        "model 'm' (without config.pbtxt): max_batch_size: max_batch_size is -1, expected 0 (no batching) or more; "
        "write max_batch_size: 0, or remove the line"
    )


def test_without_auto_complete_the_file_must_be_there(folder: Path) -> None:
    loaded = load_config(folder, "m", ConfigOptions(auto_complete=False))
    with pytest.raises(
        ConfigError,
        match=r"m/config\.pbtxt: the file is not there, and --disable-auto-complete-config makes it necessary",
    ):
        loaded.raise_on_errors()


def test_without_auto_complete_everything_must_be_said(folder: Path) -> None:
    (folder / "config.pbtxt").write_text('input { name: "a" }')
    assert load_config(folder, "m", ConfigOptions()).findings == ()
    messages = [finding.message for finding in load_config(folder, "m", ConfigOptions(auto_complete=False)).findings]
    assert messages == ["input 'a' has no data_type", "input 'a' has no dims"]


def test_a_custom_configuration_goes_before_the_usual_one(folder: Path) -> None:
    (folder / "config.pbtxt").write_text("max_batch_size: 1")
    (folder / "configs").mkdir()
    custom = folder / "configs" / "big.pbtxt"
    custom.write_text("max_batch_size: 64")
    loaded = load_config(folder, "m", ConfigOptions(config_name="big"))
    assert (loaded.config.max_batch_size, loaded.source) == (64, str(custom))
    other = load_config(folder, "m", ConfigOptions(config_name="absent"))
    assert (other.config.max_batch_size, other.source) == (1, str(folder / "config.pbtxt"))


def test_an_override_stands_in_place_of_any_file(folder: Path) -> None:
    (folder / "config.pbtxt").write_text("this is not read")
    loaded = load_config(folder, "m", ConfigOptions(override_json='{"max_batch_size": 3}'))
    assert (loaded.config.name, loaded.config.max_batch_size, loaded.source) == ("m", 3, "config override")


def test_all_findings_of_a_file_are_kept_with_the_model_s_name(folder: Path) -> None:
    (folder / "config.pbtxt").write_text("max_batch_sise: 1\nbackend: onnx")
    loaded = load_config(folder, "m", ConfigOptions())
    assert [str(finding.place) for finding in loaded.errors] == [
        f"{folder}/config.pbtxt:1:1",
        f"{folder}/config.pbtxt:2:10",
    ]
    assert loaded.config.name == "m"


def test_a_file_that_cannot_be_read_is_a_finding(folder: Path) -> None:
    (folder / "config.pbtxt").mkdir()
    (finding,) = load_config(folder, "m", ConfigOptions()).findings
    assert "can't be read" in finding.message


def test_after_the_backend_defaults_and_rules_are_applied_to_what_it_added(folder: Path) -> None:
    (folder / "config.pbtxt").write_text("\ndynamic_batching { preferred_batch_size: [ 8 ] }")
    options = ConfigOptions()
    loaded = load_config(folder, "m", options)
    assert loaded.findings == ()
    config = ModelConfig()
    config.CopyFrom(loaded.config)
    config.max_batch_size = 4
    finished = finish_config(loaded, config, options)
    assert [str(finding) for finding in finished.errors] == [
        f"{folder}/config.pbtxt:2:44: preferred_batch_size 8 of dynamic_batching is above max_batch_size 4; "
        "lower it, or raise max_batch_size to 8"
    ]


def test_a_warning_is_not_repeated_after_the_backend(folder: Path) -> None:
    (folder / "config.pbtxt").write_text('backend: "identity" metric_tags { value: "x" } dynamic_batching { }')
    options = ConfigOptions(auto_complete=False)
    loaded = load_config(folder, "m", options)
    assert len(loaded.findings) == 2
    assert len(finish_config(loaded, loaded.config, options).findings) == 2


def test_inputs_and_outputs_as_the_engine_reads_them(folder: Path) -> None:
    (folder / "config.pbtxt").write_text("""
      max_batch_size: 2
      input [ { name: "a" data_type: TYPE_STRING dims: [ -1, 3 ] }, { name: "b" data_type: TYPE_BF16 dims: 1 reshape { } optional: true allow_ragged_batch: true } ]
      output { name: "o" data_type: TYPE_FP64 dims: [ 6 ] reshape { shape: [ 2, 3 ] } label_filename: "l.txt" }
    """)
    inputs, outputs = io_specs(load_config(folder, "m", ConfigOptions()).config)
    assert [(i.name, i.datatype, i.dims, i.reshape, i.optional, i.ragged) for i in inputs] == [
        ("a", "BYTES", (-1, 3), None, False, False),
        ("b", "BF16", (1,), (), True, True),
    ]
    assert [(o.name, o.datatype, o.dims, o.reshape, o.label_filename) for o in outputs] == [
        ("o", "FP64", (6,), (2, 3), "l.txt")
    ]


def test_a_hidden_or_odd_folder_is_not_taken_for_a_version(folder: Path) -> None:
    for name in (".ipynb_checkpoints", "0x1", "configs", "warmup"):
        (folder / name).mkdir()
        (folder / name / "model.py").touch()
    assert load_config(folder, "m", ConfigOptions()).config.backend == "onnxruntime"


def test_a_file_beside_the_version_folder_is_named(folder: Path) -> None:
    (folder / "1" / "model.onnx").rename(folder / "model.onnx")
    (finding,) = [each for each in load_config(folder, "m", ConfigOptions()).errors if each.path == "backend"]
    assert finding.remedy == "'model.onnx' lies beside the version folder: move it to 'm/1/model.onnx'"


def test_a_pipe_in_place_of_the_file_is_a_finding(folder: Path) -> None:
    os.mkfifo(folder / "config.pbtxt")
    (finding,) = load_config(folder, "m", ConfigOptions()).findings
    assert "can't be read: it is no regular file but a pipe" in finding.message


def test_a_file_that_may_not_be_read_has_a_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, most_bytes: int) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("charonia.config.model_config.read_regular", refuse)
    (finding,) = load_config(folder, "m", ConfigOptions()).findings
    assert finding.message == "the file can't be read: Permission denied"
    assert finding.remedy.endswith(f"chmod a+r '{folder}/config.pbtxt'")


@pytest.mark.parametrize(
    ("group", "remedy"),
    [("kind: KIND_MODEL", "1 instance; write count: 1"), ("kind: KIND_CPU", "2 instances; write count: 2")],
)
def test_a_negative_count_is_told(folder: Path, group: str, remedy: str) -> None:
    (folder / "config.pbtxt").write_text(f"instance_group [\n {{ {group} }},\n {{ {group} count: -1 }} ]")
    (finding,) = load_config(folder, "m", ConfigOptions()).findings
    assert not finding.is_error
    assert f"config.pbtxt:3:{5 + len(group)}: count is -1 and is read as not set: {remedy}, or remove it" in str(
        finding
    )


def test_of_a_huge_file_only_the_beginning_is_read(folder: Path) -> None:
    with open(folder / "config.pbtxt", "wb") as file:
        file.truncate(1 << 40)
    (finding,) = load_config(folder, "m", ConfigOptions()).findings
    assert "more than the 1048576 that a configuration may have" in finding.message


def test_a_link_in_a_circle_is_no_folder(folder: Path) -> None:
    (folder / "circle").symlink_to("circle")
    (folder / "config.pbtxt").write_text('backend: "identity"')
    assert load_config(folder, "m", ConfigOptions()).config.backend == "identity"
