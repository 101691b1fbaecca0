"""`charonia check`: what it prints, for people and for machines, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from charonia.cli.check import run_check
from charonia.cli.group import group
from charonia.config.findings import Finding, Severity
from charonia.tools.check.as_text import Style, as_text
from charonia.tools.check.report import Report
from tests.models import onnx_models
from tests.models.repository import write_config, write_python_model

CODE = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse([]) for _ in requests]
"""
TENSORS = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
    instance_group [ { count: 1 } ]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]):
    """Runs the command; gives its exit code and what it printed, all in one line."""

    def run(*words: str | Path, models: tuple[str, ...] = (), load: bool = False, strict: bool = False) -> Any:
        code = run_check([str(word) for word in words], models, load=load, as_json=False, strict=strict)
        out, err = capsys.readouterr()
        return code, " ".join((out + err).split())

    return run


@pytest.fixture
def check_json(capsys: pytest.CaptureFixture[str]):
    """The same with --json; gives the exit code and the document."""

    def run(*words: str | Path, load: bool = False) -> Any:
        code = run_check([str(word) for word in words], (), load=load, as_json=True, strict=False)
        return code, json.loads(capsys.readouterr().out)

    return run


WARNED = "max_batch_size: 1 dynamic_batching { max_queue_delay_microseconds: 100 }"


def add_good(repository: Path, name: str = "good") -> None:
    onnx_models.save(onnx_models.mlp(), repository, name)


def add_warned(repository: Path, name: str = "warned") -> None:
    add_good(repository, name)
    write_config(repository, name, WARNED)


def add_broken(repository: Path, name: str = "broken") -> None:
    add_good(repository, name)
    write_config(
        repository,
        name,
        """
        max_batch_size: 8
        input [ { name: "inputs" data_type: TYPE_FP64 dims: [ 256 ] } ]
        output [ { name: "output" data_type: TYPE_FP32 dims: [ 11 ] label_filename: "labels.txt" } ]
        dynamic_batching { preferred_batch_size: [ 16 ] }
        """,
    )


def test_a_good_repository(repository, check):
    add_good(repository)
    assert check(repository) == (0, "1 model checked: nothing to say")


def test_every_problem_of_every_model_at_once_by_model(repository, check):
    for name in ("zebra", "ant"):
        add_broken(repository, name)
    add_good(repository)
    code, text = check(repository)
    assert code == 1
    assert text.index("ant error:") < text.index("zebra error:")
    for name in ("ant", "zebra"):
        for said in (
            f"{name}/config.pbtxt:3:11",
            "no input 'inputs'",
            f"{name}/config.pbtxt:4:",
            "dims of output 'output' are [11]",
            f"there is no '{repository}/{name}/labels.txt'",
            "preferred_batch_size 16 of dynamic_batching is above max_batch_size 8",
        ):
            assert said in text
    assert "3 models checked: 8 errors; nothing to say of 1 of them" in text


def test_a_finding_has_its_line_with_a_caret_and_a_remedy(repository, capsys):
    add_broken(repository)
    run_check([str(repository)], (), load=False, as_json=False, strict=False)
    lines = capsys.readouterr().out.splitlines()
    at = next(index for index, line in enumerate(lines) if "config.pbtxt:3:11" in line)
    assert lines[at + 1].strip() == 'input [ { name: "inputs" data_type: TYPE_FP64 dims: [ 256 ] } ]'
    assert lines[at + 2].strip() == "^"
    assert lines[at + 1].index("name:") == lines[at + 2].index("^")
    assert lines[at + 3].strip() == 'fix: write name: "input"'


def test_files_are_looked_at_although_the_configuration_is_broken(repository, check):
    add_broken(repository)
    write_config(repository, "broken", "max_batch_sise: 8")
    (repository / "broken" / "1" / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    code, text = check(repository)
    assert code == 1
    assert "did you mean 'max_batch_size'?" in text
    assert "Git LFS pointer" in text


@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 1)])
def test_warnings_fail_only_when_asked_to(repository, check, strict, code):
    add_warned(repository)
    found, text = check(repository, strict=strict)
    assert found == code
    assert "warning: dynamic_batching joins nothing" in text
    assert "1 model checked: 1 warning" in text


def test_what_works_and_costs_is_not_told_of_a_model_that_does_not_work(repository, check):
    add_broken(repository)
    with (repository / "broken" / "config.pbtxt").open("a") as config:
        config.write(f"{WARNED}\n")
    assert "warning" not in check(repository)[1]


def test_some_models_only(repository, check):
    add_broken(repository)
    add_good(repository)
    assert check(repository, models=("good",))[0] == 0
    code, text = check(repository, models=("nowhere",))
    assert code == 1
    assert "'nowhere': model not found in any model repository; there are: broken, good" in text


def test_several_repositories(tmp_path, check):
    for folder in ("one", "two"):
        add_good(tmp_path / folder)
        add_good(tmp_path / folder, folder)
    code, text = check(tmp_path / "one", tmp_path / "nowhere", tmp_path / "two")
    assert code == 1
    assert "nowhere' can't be read: it does not exist" in text
    assert f"'good' is in {tmp_path}/one, {tmp_path}/two" in text
    assert "3 models checked: 2 errors" in text


def test_a_launch_line_of_the_server(repository, check):
    add_good(repository)
    line = (
        "--http-port",
        "8000",
        f"--model-repository={repository}",
        "--log-verbose=1",
        "--model-control-mode=explicit",
    )
    assert check(*line)[0] == 0
    code, text = check(*line, "--disable-auto-complete-config")
    assert code == 1
    assert "--disable-auto-complete-config makes it necessary" in text


def test_flags_change_what_is_right(repository, check):
    add_good(repository)
    write_config(repository, "good", "instance_group [ { kind: KIND_GPU } ]")
    if check(repository)[0] == 0:
        pytest.skip("this machine has a GPU")
    code, text = check("--no-gpu", "cpu", repository)
    assert code == 0
    assert "runs on the CPU, as --no-gpu=cpu says" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--model-repository must be specified"),
        (("models", "--no-such-flag"), "unrecognized option '--no-such-flag'"),
        (("models", "--http-port=x"), "--http-port"),
    ],
)
def test_a_wrong_command_line(check, words, said):
    code, text = check(*words)
    assert code == 2
    assert said in text


def test_for_machines(repository, check_json):
    add_broken(repository)
    add_good(repository)
    code, document = check_json(repository)
    assert code == 1
    assert document["schema"] == 1
    assert document["models"] == [
        {"name": "broken", "versions": [], "graph": None},
        {"name": "good", "versions": [1], "graph": None},
    ]
    assert document["summary"] == {"models": 2, "errors": len(document["findings"]), "warnings": 0}
    assert document["loads"] == []
    name = next(each for each in document["findings"] if each["field"] == "input[0].name")
    assert name == {
        "model": "broken",
        "version": 1,
        "severity": "error",
        "file": str(repository / "broken" / "config.pbtxt"),
        "line": 3,
        "column": 11,
        "field": "input[0].name",
        "message": "model.onnx has no input 'inputs'; its inputs are input",
        "remedy": 'write name: "input"',
        "snippet": name["snippet"],
    }
    assert all(set(each) == set(name) for each in document["findings"])


def test_the_repositorys_own_findings_are_of_no_model(tmp_path, check_json):
    code, document = check_json(tmp_path)
    assert code == 1
    assert [each["model"] for each in document["findings"]] == [None]
    assert document["models"] == []


@pytest.mark.parametrize("slash", ["", "/", "/."])
def test_a_model_given_as_the_repository_is_told_once(repository, check_json, slash):
    add_good(repository)
    code, document = check_json(f"{repository}/good{slash}")
    assert code == 1
    assert [each["severity"] for each in document["findings"]] == ["error"]


def test_nothing_of_a_model_is_executed(repository, check):
    trace = repository / "trace"
    write_python_model(repository, "curious", TENSORS, f"open({str(trace)!r}, 'w')\n" + CODE.replace("\n    ", "\n"))
    assert check(repository)[0] == 0
    assert not trace.exists()


def test_load_loads_and_warms_up(repository, check):
    add_good(repository)
    write_config(
        repository,
        "good",
        """model_warmup [ { name: "w" batch_size: 2 count: 3
             inputs { key: "input" value { data_type: TYPE_FP32 dims: [ 256 ] zero_data: true } } } ]""",
    )
    code, text = check(repository, load=True)
    assert code == 0
    assert "good version 1 loaded in 0." in text
    assert "with 3 runs of warm-up" in text
    assert "1 model checked: nothing to say; 1 version loaded" in text


def test_load_tells_what_only_loading_can(repository, check):
    write_python_model(repository, "unlicensed", TENSORS, CODE + "\n    raise RuntimeError('no license')\n")
    add_good(repository)
    code, text = check(repository, load=True)
    assert code == 1
    assert "RuntimeError: no license" in text
    assert f"at {repository}/unlicensed/1" in text
    assert "good version 1 loaded" in text


def test_what_is_broken_is_not_loaded(repository, check_json):
    add_broken(repository)
    code, document = check_json(repository, load=True)
    assert code == 1
    assert document["loads"] == []


def test_what_models_print_is_not_in_the_report(repository, capfd):
    write_python_model(repository, "chatty", TENSORS, "\n    print('hello', flush=True)\n" + CODE)
    run_check([str(repository)], (), load=True, as_json=True, strict=False)
    out, err = capfd.readouterr()
    assert [(each["model"], each["loaded"]) for each in json.loads(out)["loads"]] == [("chatty", True)]
    assert "hello" in err


def test_the_command(repository):
    add_good(repository)
    result = CliRunner().invoke(group, ["check", "--strict", str(repository), "--model", "good"])
    assert (result.exit_code, result.output) == (0, "1 model checked: nothing to say\n")
    shown = " ".join(CliRunner().invoke(group, ["check", "--help"]).output.split())
    for each in ("--load", "--json", "--strict", "--model NAME", "Exit code: 0"):
        assert each in shown


def report_of(message: str, model: str = "m") -> Report:
    report = Report({model: (1,)})
    report.add(model, [Finding(Severity.ERROR, "", None, message, "do this")])
    return report


def test_lines_are_no_wider_than_asked_for_and_words_stay_whole():
    path = "/" + "long/" * 30
    lines = as_text(report_of("word " * 100 + path), Style(60)).splitlines()
    assert all(len(line) <= 60 for line in lines if path not in line)
    assert any(path in line for line in lines)


def test_colours_only_where_they_are_shown():
    assert "\x1b[31;1m" in as_text(report_of("wrong"), Style(color=True))
    assert "\x1b" not in as_text(report_of("wrong"), Style())


def test_nothing_that_a_terminal_would_act_on_is_printed():
    text = as_text(report_of("evil \x1b[2J text", "evil\x1b]0;x\x07"), Style())
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_the_lines_of_a_message_stay_lines():
    lines = as_text(report_of("it failed\n\nAt:\n  model.py(3): f"), Style()).splitlines()
    assert [line.strip() for line in lines[1:4]] == ["error: it failed", "At:", "model.py(3): f"]


IDENTITY = """
    backend: "identity"
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
    dynamic_batching { }
"""


@pytest.mark.parametrize(
    ("more", "line", "words"),
    [
        ('model_warmup { name: "w" batch_size: 9 }', 7, "has batch_size 9, expected at most 4"),
        ('parameters { key: "execute_delay_ms" value { string_value: "soon" } }', 7, "milliseconds, got 'soon'"),
        ('output { name: "MORE" data_type: TYPE_FP32 dims: [ 1 ] }', 5, "'MORE' has none"),
    ],
)
def test_an_identity_model_is_looked_at_as_any_other(repository, check_json, more, line, words):
    (write_config(repository, "m", f"{IDENTITY}    {more}\n") / "1").mkdir()
    code, document = check_json(repository)
    assert code == 1
    (finding,) = (each for each in document["findings"] if each["severity"] == "error")
    assert words in finding["message"]
    assert finding["line"] == line
