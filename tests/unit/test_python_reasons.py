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


def test_an_execute_that_a_decorator_may_change_is_loaded(tmp_path):
    code = "def changed(found):\n    found.execute = lambda self, requests: []\n    return found\n\n@changed\n"
    write_python_model(tmp_path, "m", TENSORS + INLINE, code + EXECUTE.replace("self, ", ""))
    options = ServerOptions(model_repository=[str(tmp_path)], allow_http=False, allow_grpc=False, allow_metrics=False)
    server = Server(options, ServerLog(sink=KeptLines()))
    server.open()
    assert server.load().complete
    assert server.stop()
