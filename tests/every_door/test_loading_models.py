"""Models that load, unload and look for others, in both forms, and the loads that can't be."""

import json

import numpy as np
import pytest

from charonia.api import Server
from charonia.core.errors import CharoniaError
from tests.models.repository import write_python_model

FORMS = ("isolated", "inline")
ASKS = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        said = json.loads(request.parameters())
        function = getattr(pb_utils, said["function"])
        arguments = json.loads(said["arguments"])
        if "files" in arguments:
            arguments["files"] = {path: text.encode() for path, text in arguments["files"].items()}
        try:
            found = function(**arguments)
        except pb_utils.TritonModelException as error:
            found = str(error)
        text = np.array([json.dumps(found).encode()], np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)])
"""
ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
LOADS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.load_model(%r)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
CONFIG = """
input [ {{ name: "IN" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }} ]
parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
"""
X = {"IN": np.array([b"x"], np.object_)}


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def serve(tmp_path, form):
    """A server in a control mode over models of one form: `asks`, `echo`, and what the test adds."""
    servers = []

    def start(mode="explicit", load=("asks",), **models):
        for name, code in {"asks": ASKS, "echo": ECHO, **models}.items():
            write_python_model(tmp_path, name, CONFIG.format(form=form), code)
        options = {"load_model": list(load)} if mode == "explicit" else {}
        servers.append(Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0, model_control_mode=mode, **options))
        return servers[-1].start()

    yield start
    for server in servers:
        server.stop()


def ask(server, function, **arguments):
    parameters = {"function": function, "arguments": json.dumps(arguments)}
    return json.loads(server.model("asks").infer(X, parameters=parameters)["OUT"][0])


def test_a_model_loads_another_and_unloads_it(serve):
    server = serve()
    assert ask(server, "is_model_ready", model_name="echo") is False
    assert ask(server, "load_model", model_name="echo") is None
    assert ask(server, "is_model_ready", model_name="echo") is True
    assert ask(server, "is_model_ready", model_name="echo", model_version="1") is True
    assert ask(server, "is_model_ready", model_name="echo", model_version="2") is False
    assert server.model("echo").infer(X)["OUT"].tolist() == [b"x"]
    assert ask(server, "unload_model", model_name="echo") is None
    assert ask(server, "is_model_ready", model_name="echo") is False


def test_a_model_loads_another_of_files_of_its_own(serve, form):
    server = serve()
    config = '{"backend": "python", "input": [{"name": "IN", "data_type": "TYPE_STRING", "dims": [1]}], '
    config += '"output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]}], '
    config += f'"parameters": {{"execution": {{"string_value": "{form}"}}}}}}'
    files = {"file:3/model.py": ECHO}
    assert ask(server, "load_model", model_name="made", config=config, files=files) is None
    assert server.model("made").version == 3
    assert server.model("made").infer(X)["OUT"].tolist() == [b"x"]


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        ("load_model", {"model_name": "nowhere"}, "nowhere"),
        ("load_model", {"model_name": "echo", "files": {"file:1/model.py": ECHO}}, "'config' must be specified"),
        ("load_model", {"model_name": "echo", "files": {"1/model.py": ECHO}}, "must begin with 'file:'"),
        ("load_model", {"model_name": "echo", "config": "{"}, "echo"),
        ("is_model_ready", {"model_name": "echo", "model_version": "one"}, "version should be an integral value"),
    ],
)
def test_what_can_not_be_is_told_to_the_model(serve, function, arguments, reason):
    assert reason in ask(serve(), function, **arguments)


def test_without_explicit_control_nothing_is_loaded(serve):
    server = serve(mode="none")
    assert "explicit model load / unload is not allowed" in ask(server, "load_model", model_name="echo")
    assert "explicit model load / unload is not allowed" in ask(server, "unload_model", model_name="echo")
    assert ask(server, "is_model_ready", model_name="echo") is True


def test_a_model_may_load_another_while_it_is_loaded(serve):
    server = serve(first=LOADS % "echo")
    server.load_model("first")
    assert server.model("echo").ready


@pytest.mark.parametrize("names", [("itself",), ("one", "two")])
def test_loads_that_would_wait_for_themselves_are_refused(serve, names):
    following = (*names[1:], names[0])
    server = serve(**{name: LOADS % other for name, other in zip(names, following, strict=True)})
    with pytest.raises(CharoniaError, match="can't be loaded"):
        server.load_model(names[0])
