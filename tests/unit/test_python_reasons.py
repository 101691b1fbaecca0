"""Why a Python model can't be loaded: what `charonia check` says of it, with its place, and once."""

import pytest

from charonia.observe.log import ServerLog
from charonia.options import ServerOptions
from charonia.server import Server
from charonia.testing.log import KeptLines
from charonia.tools.check.run import check
from tests.models.repository import write_python_model

TENSORS = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
EXECUTE = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
WRONG = {
    "syntax": (EXECUTE.replace("requests):", "requests)"), "model.py:2:32: this is no valid Python"),
    "name": (EXECUTE.replace("TritonPythonModel", "TritonModel"), "model.py:1:1: the file has no class named"),
    "package": ("import nowhere\n" + EXECUTE, "model.py:1:1: the module 'nowhere' is not installed"),
    "nested_package": ("import nowhere.else_\n" + EXECUTE, "model.py:1:1: the module 'nowhere' is not installed"),
    "without_self": (EXECUTE.replace("self, ", ""), "model.py:2:5: execute is called as execute(self, requests)"),
    "initialize": (EXECUTE + "    def initialize(args): ...\n", "model.py:4:5: initialize is called as"),
    "method": (EXECUTE.replace("execute", "run"), "model.py:1:1: class TritonPythonModel has no method named execute"),
}


@pytest.mark.parametrize("form", ["", INLINE], ids=["isolated", "inline"])
def test_a_load_says_what_a_look_says(tmp_path, form):
    for name, (code, _) in WRONG.items():
        write_python_model(tmp_path, name, TENSORS + form, code)
    options = ServerOptions(model_repository=[str(tmp_path)], allow_http=False, allow_grpc=False, allow_metrics=False)
    server = Server(options, ServerLog(sink=KeptLines()))
    server.open()
    reasons = server.load().reasons
    assert server.stop()
    looked = check(options)
    for name, (_, words) in WRONG.items():
        assert words in reasons[name]
        assert reasons[name].count("model.py") == 1, reasons[name]
        assert "the load said" not in reasons[name]
        assert looked.is_broken(name)


SETTINGS = {
    "form": ({"execution": "inlin"}, "'execution' must be one of isolated, inline, got 'inlin'"),
    "devices": ({"FORCE_CPU_ONLY_INPUT_TENSORS": "maybe"}, "must be yes or no, got 'maybe'"),
    "environment": ({"EXECUTION_ENV_PATH": "/", "execution": "inline"}, "'EXECUTION_ENV_PATH' '/' can't be used"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_parameter_is_found_at_its_place_before_a_load(tmp_path, name):
    parameters, words = SETTINGS[name]
    lines = [f'parameters {{ key: "{key}" value {{ string_value: "{text}" }} }}\n' for key, text in parameters.items()]
    write_python_model(tmp_path, name, TENSORS + "".join(lines), EXECUTE)
    options = ServerOptions(model_repository=[str(tmp_path)], allow_http=False, allow_grpc=False, allow_metrics=False)
    found = next(each.finding for each in check(options).of(name) if words in each.finding.message)
    assert found.is_error
    line = (tmp_path / name / "config.pbtxt").read_text().splitlines().index(lines[0].rstrip()) + 1
    assert f"{tmp_path}/{name}/config.pbtxt:{line}:" in str(found)
    server = Server(options, ServerLog(sink=KeptLines()))
    server.open()
    assert str(found) in server.load().reasons[name]
    assert server.stop()


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("execution", "inlin", "one of isolated, inline"),
        ("max-deaths", "few", "a whole number"),
        ("death-window-seconds", "long", "a number"),
    ],
)
def test_so_is_one_of_the_launch_line(tmp_path, key, text, expected):
    write_python_model(tmp_path, "m", TENSORS, EXECUTE)
    report = check(ServerOptions(model_repository=[str(tmp_path)], backend_config={"python": {key: text}}))
    assert report.is_broken("m")
    assert f"--backend-config=python,{key} must be {expected}, got '{text}'" in str(report.findings)


def test_an_execute_that_a_decorator_may_change_is_loaded(tmp_path):
    code = "def changed(found):\n    found.execute = lambda self, requests: []\n    return found\n\n@changed\n"
    write_python_model(tmp_path, "m", TENSORS + INLINE, code + EXECUTE.replace("self, ", ""))
    options = ServerOptions(model_repository=[str(tmp_path)], allow_http=False, allow_grpc=False, allow_metrics=False)
    server = Server(options, ServerLog(sink=KeptLines()))
    server.open()
    assert server.load().complete
    assert server.stop()
