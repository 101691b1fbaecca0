"""`breakpoint()` in an inline model: the debugger comes up in the terminal of `charonia serve`."""

import http.client
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading

import pytest

from tests.models.repository import write_python_model

CONFIG = """
    input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
    parameters { key: "execution" value { string_value: "inline" } }
"""
MODEL = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            answer = 41
            BREAK
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([answer], np.float32))])]
"""
PATIENCE_S = 30
BODY = json.dumps({"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [0]}]})


class Terminal:
    """The user's side of a pseudo-terminal in which a command runs."""

    def __init__(self, *command):
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.shown = ""

    def read_until(self, pattern):
        """Everything shown since the last match, up to one of `pattern`; the terminal may break lines anywhere."""
        while not (match := re.search(pattern, self.shown.replace("\r", "").replace("\n", ""))):
            ready, _, _ = select.select([self._ours], [], [], PATIENCE_S)
            assert ready, f"the terminal does not show {pattern!r}, but {self.shown!r}"
            self.shown += os.read(self._ours, 4096).decode()
        self.shown = ""
        return match

    def type(self, line):
        os.write(self._ours, line.encode() + b"\n")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path):
    write_python_model(tmp_path, "stopped", CONFIG, MODEL.replace("BREAK", "breakpoint()"))
    write_python_model(tmp_path, "other", CONFIG, MODEL.replace("BREAK", ""))
    ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics")]
    opened = Terminal(sys.executable, "-m", "charonia", "serve", f"--model-repository={tmp_path}", *ports)
    yield opened
    opened.close()


def ask(port, model):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST", f"/v2/models/{model}/infer", BODY)
        return json.loads(connection.getresponse().read())["outputs"][0]["data"]
    finally:
        connection.close()


def test_the_debugger_stops_in_the_model_while_others_serve(terminal):
    port = int(terminal.read_until(r'Started HTTPService at \S+:(\d+)"')[1])
    answers = []
    client = threading.Thread(target=lambda: answers.append(ask(port, "stopped")))
    client.start()
    terminal.read_until(r"\(Pdb\) $")
    terminal.type("p answer")
    terminal.read_until(r"41\(Pdb\) $")
    assert ask(port, "other") == [41.0]
    terminal.type("answer = 42")
    terminal.read_until(r"\(Pdb\) $")
    terminal.type("c")
    client.join(PATIENCE_S)
    assert answers == [[42.0]]
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(PATIENCE_S) == 0
