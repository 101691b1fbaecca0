"""What the log says of a configuration."""

from pathlib import Path
from typing import Any

import pytest

from charonia.config.announce import annotated, described, log_completed, log_errors
from charonia.config.complete import complete_from_model
from charonia.config.findings import Completion, ConfigError
from charonia.config.model_config import ConfigOptions, LoadedConfig, finish_config, load_config
from charonia.config.model_tensor import ModelTensor
from charonia.config.pbtxt import parse_pbtxt
from charonia.core.errors import InvalidArgumentError
from charonia.core.log import SilentLog


class KeptLog(SilentLog):
    def __init__(self, highest_verbosity: int = 0) -> None:
        self.highest_verbosity = highest_verbosity
        self.lines: list[str] = []

    def info(self, message: str) -> None:
        self.lines.append(message)

    def error(self, message: str, below: str = "") -> None:
        self.lines.append(f"{message}\n{below}")

    def verbose(self, message: str, level: int = 1) -> None:
        self.lines.append(message)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tmp_path / "m"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.onnx").touch()
    return model


def completed(folder: Path) -> LoadedConfig:
    loaded = load_config(folder, "m", ConfigOptions())
    tensor = ModelTensor("X", "FP32", (-1, 4))
    done = complete_from_model(loaded.config, [tensor], [tensor], model_file="model.onnx", places=loaded.places)
    return finish_config(loaded, done.config, ConfigOptions(), done.completions)


FILLED = (
    'name: "m" (the folder\'s name); backend: "onnxruntime", platform: "onnxruntime_onnx", '
    'default_model_filename: "model.onnx" (1/model.onnx is there); instance_group[0].kind: KIND_CPU (no GPU that it '
    "could use is visible); max_batch_size: 4 (every first dimension of the model is open, and "
    "default-max-batch-size says so); dynamic_batching: { } (the model batches and no scheduling is set); "
    'input[0]: { name: "X" data_type: TYPE_FP32 dims: [4] }, output[0]: { name: "X" data_type: TYPE_FP32 dims: [4] } '
    "(from model.onnx); dynamic_batching.preferred_batch_size: [ 4 ] (max_batch_size); "
    "version_policy: { latest { num_versions: 1 } }, optimization.input_pinned_memory: { enable: true }, "
    'optimization.output_pinned_memory: { enable: true }, instance_group: [ { name: "m" count: 1 } ] (default)'
)


def test_one_line_says_every_field_that_was_filled_in_and_why(folder: Path) -> None:
    log = KeptLog()
    log_completed(log, completed(folder))
    assert log.lines == [f"model 'm': it has no configuration, so this is filled in: {FILLED}"]


def test_what_was_written_is_not_said_again(folder: Path) -> None:
    (folder / "config.pbtxt").write_text('name: "m" max_batch_size: 2')
    log = KeptLog()
    log_completed(log, completed(folder))
    (line,) = log.lines
    assert line.startswith("model 'm': its configuration leaves open what is filled in: backend: ")
    assert "max_batch_size: 2" not in line


def test_a_configuration_that_says_everything_needs_no_line() -> None:
    document = parse_pbtxt('name: "m"', "c")
    log = KeptLog()
    log_completed(log, LoadedConfig(document.config, (), (), "c", document.places))
    assert log.lines == []


def test_the_whole_configuration_is_there_for_those_who_want_details(folder: Path) -> None:
    log = KeptLog(1)
    loaded = completed(folder)
    log_completed(log, loaded)
    text = log.lines[1]
    assert "\n# max_batch_size: every first dimension of the model is open" in text
    head, _, rest = text.partition("\n")
    assert head == "model 'm' has this configuration:"
    assert parse_pbtxt(rest, "c").config == loaded.config


def test_values_can_not_forge_a_line() -> None:
    completions = (Completion("name", '"\n\x1b"', "the folder's\nname"),)
    assert described(completions).isprintable()
    assert all(line.isprintable() for line in annotated(parse_pbtxt("", "c").config, completions).split("\n"))


@pytest.mark.parametrize("wrong", ['name: "m"\nmax_batch_size: many', "\tmax_batch_size: -1"])
def test_each_error_is_shown_with_its_line_and_a_caret(folder: Path, wrong: str) -> None:
    (folder / "config.pbtxt").write_text(wrong)
    log = KeptLog()
    loaded = load_config(folder, "m", ConfigOptions())
    log_errors(log, "failed to load 'm'", ConfigError(loaded.findings))
    (entry,) = log.lines
    message, line, caret = entry.split("\n")
    assert message.startswith(f"failed to load 'm': {folder}/config.pbtxt:")
    assert line == f"    {wrong.splitlines()[-1]}"
    assert line[caret.index("^") :].startswith(("many", "max_batch_size"))


def test_other_errors_have_no_line_to_show() -> None:
    log = KeptLog()
    log_errors(log, "failed", InvalidArgumentError("no"))
    loaded = load_config(Path("/nowhere"), "m", ConfigOptions(auto_complete=False))
    log_errors(log, "failed", ConfigError(loaded.findings))
    assert [line.strip() for line in log.lines] == ["failed: no", f"failed: {loaded.findings[0]}"]


def fails(text: str, *tensors: ModelTensor) -> Any:
    document = parse_pbtxt(text, "c")
    return complete_from_model(
        document.config, tensors, tensors, model_file="model.onnx", places=document.places
    ).findings


def test_contradictions_end_with_lines_that_fit_the_model() -> None:
    rows = ModelTensor("X", "FP32", (-1, 4))
    found = fails('max_batch_size: 8 input { name: "X" data_type: TYPE_FP64 dims: [ -1, 4 ] }', rows)
    assert len(found) == 2
    assert found[0].snippet == ""
    assert found[1].details.split("\n")[2:] == [
        "    what fits model.onnx:",
        "      max_batch_size: 8",
        '      input { name: "X" data_type: TYPE_FP32 dims: [4] }',
        '      output { name: "X" data_type: TYPE_FP32 dims: [4] }',
    ]


def test_lines_that_fit_a_model_which_does_not_batch() -> None:
    text = 'max_batch_size: 8 input { name: "X" data_type: TYPE_FP32 dims: 4 }'
    (found,) = fails(text, ModelTensor("X", "FP32", (1, 4)), ModelTensor("s", "INT64", ()))[-1:]
    fitting = "\n".join(line.strip() for line in found.snippet.split("\n")[1:])
    config = parse_pbtxt(fitting, "c").config
    assert [(io.name, list(io.dims)) for io in config.input] == [("X", [1, 4]), ("s", [1])]
    assert config.max_batch_size == 0


def test_lines_that_fit_when_only_the_batch_size_was_forgotten() -> None:
    io = '{ name: "X" data_type: TYPE_FP32 dims: 4 }'
    found = fails(f"input {io} output {io}", ModelTensor("X", "FP32", (-1, 4)))
    assert found[-1].snippet.split("\n")[1:3] == [
        "      max_batch_size: 8",
        '      input { name: "X" data_type: TYPE_FP32 dims: [4] }',
    ]


def test_a_model_with_endless_inputs_has_no_such_lines() -> None:
    many = [ModelTensor(f"X{number}", "FP32", (-1,)) for number in range(30)]
    assert all(finding.snippet == "" for finding in fails('input { name: "Y" }', *many))
