"""Log files that are renamed: SIGHUP has the command open them again, and embedded servers have a method."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import urllib.request

import psutil
import pytest

import charonia
from tests.models.repository import write_python_model
from tests.system.conftest import PATIENCE_S, infer_body

AGAIN = "log files are opened again"
ROTATIONS = 20
CLIENTS = 4


def lines_of(*paths):
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_no_line_of_the_access_log_is_lost_or_torn(serve, repository, tmp_path):
    repository.add("m")
    path = tmp_path / "access.log"
    server = serve(repository.flag, f"--access-log={path}").started()
    rotated = threading.Event()
    sent = []

    def ask(client):
        number = 0
        while not rotated.is_set():
            sent.append(f"{client}-{number}")
            body = {**infer_body(number), "id": sent[-1]}
            assert server.ask("POST", "/v2/models/m/infer", body).status == 200
            number += 1

    clients = [threading.Thread(target=ask, args=(client,)) for client in range(CLIENTS)]
    for each in clients:
        each.start()
    old = [tmp_path / f"access.log.{number}" for number in range(ROTATIONS)]
    for each in old:
        path.rename(each)
        server.signal(signal.SIGHUP)
        server.wait_for(AGAIN)
    rotated.set()
    for each in clients:
        each.join(PATIENCE_S)
    server.signal()
    assert server.exit_code() == 0
    found = [line["request_id"] for line in lines_of(*old, path)]
    assert sorted(found) == sorted(sent)


def test_the_log_goes_on_in_a_new_file(serve, repository, tmp_path):
    """The old one is a pipe, whose end tells that the new one is open."""
    repository.add("m")
    path = tmp_path / "server.log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    keeper = os.open(path, os.O_WRONLY)  # it has no end before the server has opened it
    server = serve(repository.flag, f"--log-file={path}", "--log-format=json")
    os.set_blocking(reader, True)
    with os.fdopen(reader) as old:
        assert any("Started Metrics Service" in line for line in iter(old.readline, ""))
        os.close(keeper)
        path.rename(tmp_path / "server.log.1")
        server.signal(signal.SIGHUP)
        assert old.read() == ""
    server.signal()
    assert server.exit_code() == 0
    messages = [line["message"] for line in lines_of(path)]
    assert AGAIN in messages[0]
    assert "Signal (15) received: stopping" in messages[1]
    assert server.log == []


def test_a_file_that_can_not_be_opened_again_is_told(serve, repository, tmp_path):
    repository.add("m")
    path = tmp_path / "access.log"
    server = serve(repository.flag, f"--access-log={path}").started()
    path.rename(tmp_path / "old")
    path.mkdir()
    server.signal(signal.SIGHUP)
    server.wait_for("the file of the access log can't be opened again, the old one is kept: Is a directory")
    assert server.ask("GET", "/v2/health/live").status == 200
    server.signal()
    assert server.exit_code() == 0
    assert [line["path"] for line in lines_of(tmp_path / "old")] == ["/v2/health/live"]


@pytest.mark.parametrize("flags", [[], ["--access-log=-"]])
def test_without_a_file_the_signal_means_what_it_means_to_others(serve, repository, flags):
    repository.add("m")
    server = serve(repository.flag, *flags).started()
    server.signal(signal.SIGHUP)
    assert server.exit_code() == -signal.SIGHUP


def test_a_delay_of_the_stop_is_not_ended_by_it(serve, repository, tmp_path):
    repository.add("m")
    server = serve(repository.flag, f"--access-log={tmp_path}/access.log", "--drain-delay-secs=600").started()
    server.signal()
    server.wait_for("requests are accepted for 600 s")
    server.signal(signal.SIGHUP)
    server.wait_for(AGAIN)
    assert server.ask("GET", "/v2/health/live").status == 200
    server.signal()
    assert server.exit_code() == 0


def test_processes_of_models_pass_it_over(serve, repository, tmp_path):
    """A service manager may send it to all processes of the service."""
    config = """
        input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
        output { name: "PID" data_type: TYPE_INT32 dims: [ 1 ] }
    """
    code = """
        import os
        import numpy as np
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                pid = pb_utils.Tensor("PID", np.array([os.getpid()], np.int32))
                return [pb_utils.InferenceResponse([pid]) for _ in requests]
    """
    write_python_model(repository.path, "m", config, code)
    server = serve(repository.flag, f"--access-log={tmp_path}/access.log").started()
    before = server.ask("POST", "/v2/models/m/generate", {"X": 1}).json()["PID"]
    for process in psutil.Process(server.process.pid).children(recursive=True):
        process.send_signal(signal.SIGHUP)
    server.signal(signal.SIGHUP)
    server.wait_for(AGAIN)
    assert server.ask("POST", "/v2/models/m/generate", {"X": 1}).json()["PID"] == before


class InTerminal:
    """The command in a session of a terminal of its own, with its log in a pipe."""

    def __init__(self, *command):
        self.terminal, end = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(end, termios.TIOCSCTTY, 0),
        )
        os.close(end)

    def wait_for(self, text):
        assert any(text in line for line in iter(self.process.stdout.readline, "")), f"no line with {text!r}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


@pytest.mark.parametrize("before", [[], ["nohup"]])
def test_a_terminal_that_goes_away_ends_the_server_unless_it_has_nohup(repository, tmp_path, before):
    repository.add("m")
    path = tmp_path / "access.log"
    ports = [f"--{door}-port=0" for door in ("http", "grpc", "metrics")]
    serve = [sys.executable, "-m", "charonia", "serve", *ports, repository.flag, f"--access-log={path}"]
    with InTerminal(*before, *serve) as server:
        server.wait_for("Started Metrics Service")
        path.rename(tmp_path / "old")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(AGAIN)
        assert path.exists()
        os.close(server.terminal)
        if before:
            server.wait_for(AGAIN)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("Signal (15) received: stopping")
        else:
            server.wait_for("Signal (1) received: stopping")
        assert server.process.wait(PATIENCE_S) == 0


def test_an_embedded_server_leaves_the_signal_alone_and_has_a_method(repository, tmp_path):
    repository.add("m")
    before = signal.getsignal(signal.SIGHUP)
    files = {name: tmp_path / f"{name}.log" for name in ("log", "access")}
    options = {"log_file": str(files["log"]), "access_log": str(files["access"]), "log_info": True}
    with charonia.Server(repository.path, http_port=0, http_address="127.0.0.1", **options) as server:
        assert signal.getsignal(signal.SIGHUP) is before
        for path in files.values():
            path.rename(path.with_suffix(".old"))
        server.reopen_logs()
        urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http']}/v2", timeout=PATIENCE_S).close()
    assert "successfully loaded 'm'" in files["log"].with_suffix(".old").read_text()
    assert "successfully unloaded 'm'" in files["log"].read_text()
    assert [line["path"] for line in lines_of(files["access"])] == ["/v2"]
    assert files["access"].with_suffix(".old").read_text() == ""
