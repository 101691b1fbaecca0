"""How the command stops: signals, requests in flight, exit codes."""

import json
import os
import queue
import signal
import socket
import threading
from contextlib import ExitStack

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpcclient

from tests.models.repository import write_python_model

BODY = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [4.0]}]}


class InFlight:
    """A request that has reached the server and is being executed."""

    def __init__(self, server, model):
        self._connection = server.connect()
        self._connection.request("POST", f"/v2/models/{model}/infer", json.dumps(BODY))
        # Later bytes on another connection are answered: the server has read those before.
        assert server.ask("GET", "/v2/health/live").status == 200
        self.status = 0
        self.headers = {}
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        try:
            response = self._connection.getresponse()
            self.status, self.headers = response.status, response.headers
            response.read()
        except (OSError, ValueError):
            self.status = -1

    def result(self):
        self._thread.join(30)
        self._connection.close()
        return self.status


def answer_on_a_new_connection(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as late:
        late.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        if not late.recv(1):
            raise ConnectionResetError


HALF_A_REQUEST = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_stops_with_0(serve, repository, number):
    repository.add("m")
    server = serve(repository.flag).started()
    server.signal(number)
    assert server.exit_code() == 0
    assert f"Signal ({int(number)})" in server.text
    assert "successfully unloaded 'm'" in server.text


def test_a_request_in_flight_is_answered(serve, repository):
    repository.add("slow", delay_ms=1000)
    server = serve(repository.flag).started()
    request = InFlight(server, "slow")
    server.signal()
    assert request.result() == 200
    assert server.exit_code() == 0


def test_a_grpc_call_in_flight_is_answered(serve, repository):
    repository.add("slow", delay_ms=1000)
    server = serve(repository.flag).started()
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        answers = queue.Queue()
        tensor = grpcclient.InferInput("INPUT0", [1, 1], "FP32").set_data_from_numpy(np.array([[4]], np.float32))
        client.async_infer("slow", [tensor], callback=lambda result, error: answers.put((result, error)))
        assert client.is_server_live()  # a later call on the same connection: the first has arrived
        server.signal()
        result, error = answers.get(timeout=30)
    assert error is None
    assert result.as_numpy("OUTPUT0").tolist() == [[4.0]]
    assert server.exit_code() == 0


def test_no_new_connections_while_it_stops(serve, repository):
    repository.add("slow", delay_ms=1500)
    server = serve(repository.flag).started()
    request = InFlight(server, "slow")
    server.signal()
    server.wait_for("Waiting for in-flight requests to complete: 1 now")
    with pytest.raises(OSError):  # noqa: PT012 (the loop is the wait)
        for _ in range(100):  # the thread that listens may be a moment later than the line of the log
            answer_on_a_new_connection(server.ports["http"])
    assert request.result() == 200
    assert server.exit_code() == 0


def test_an_idle_connection_does_not_hold_the_stop_up(serve, repository):
    repository.add("m")
    server = serve(repository.flag).started()
    idle = server.connect()
    idle.request("GET", "/v2/health/ready")
    assert idle.getresponse().read() == b""
    server.signal()
    assert server.exit_code() == 0
    assert idle.sock is None or idle.sock.recv(1) == b""


@pytest.mark.parametrize("begun", [b"", HALF_A_REQUEST[:9], HALF_A_REQUEST, HTTP_2[:9], HTTP_2])
def test_a_client_that_stopped_in_the_middle_does_not_hold_the_stop_up(serve, repository, begun):
    repository.add("m")
    server = serve(repository.flag, "--exit-timeout-secs=300").started()
    with ExitStack() as clients:
        for port in server.ports.values():
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(begun)
        assert server.ask("GET", "/v2/health/live").status == 200
        server.signal()
        assert server.exit_code() == 0


def test_the_last_answer_on_a_connection_closes_it(serve, repository):
    repository.add("slow", delay_ms=1000)
    server = serve(repository.flag).started()
    request = InFlight(server, "slow")
    server.signal()
    assert request.result() == 200
    assert request.headers["Connection"].lower() == "close"
    assert server.exit_code() == 0


def test_many_requests_just_before_the_signal_are_all_answered(serve, repository):
    repository.add("slow", delay_ms=100)
    server = serve(repository.flag).started()
    requests = [InFlight(server, "slow") for _ in range(20)]
    server.signal()
    assert [request.result() for request in requests] == [200] * 20
    assert server.exit_code() == 0


def test_a_second_signal_changes_nothing(serve, repository):
    repository.add("slow", delay_ms=1000)
    server = serve(repository.flag).started()
    request = InFlight(server, "slow")
    server.signal()
    server.wait_for("Signal")
    server.signal()
    server.signal(signal.SIGINT)
    assert request.result() == 200
    assert server.exit_code() == 0


def test_when_the_time_is_over_it_exits_with_1(serve, repository):
    repository.add("slow", delay_ms=60_000)
    server = serve(repository.flag, "--exit-timeout-secs=1").started()
    request = InFlight(server, "slow")
    server.signal()
    assert server.exit_code() == 1
    assert request.result() != 200
    assert "exit timeout expired" in server.text


def test_a_signal_while_models_load(serve, repository):
    repository.add_slow_to_load("slow", 1000)
    repository.add_slow_to_load("slower", 1000)
    server = serve(repository.flag, "--model-load-thread-count=1")
    server.wait_for("loading: slow")
    server.signal()
    assert server.exit_code() == 0


STUCK_MODEL = """
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        if pb_utils.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0, 0] > 0:
            time.sleep(600)
        pid = np.array([[os.getpid()]], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", pid)]) for _ in requests]
"""


@pytest.mark.parametrize("stopped", [False, True], ids=["it sleeps", "it is stopped"])
def test_the_process_of_a_stuck_model_ends_with_the_server(serve, repository, stopped):
    repository.add("stuck")
    config = repository.path / "stuck" / "config.pbtxt"
    config.write_text(config.read_text().replace("identity", "python"))
    (repository.path / "stuck" / "1" / "model.py").write_text(STUCK_MODEL)
    server = serve(repository.flag, "--exit-timeout-secs=1").started()
    idle = {"inputs": [{**BODY["inputs"][0], "data": [0.0]}]}
    child = psutil.Process(int(server.ask("POST", "/v2/models/stuck/infer", idle).json()["outputs"][0]["data"][0]))
    request = InFlight(server, "stuck")
    if stopped:  # then nothing in it can notice that the server has gone
        child.suspend()
    server.signal()
    assert server.exit_code() == 1
    assert request.result() != 200
    child.wait(30)


def test_before_a_delayed_stop_it_is_not_ready_and_serves_on(serve, repository):
    repository.add("m")
    server = serve(repository.flag, "--drain-delay-secs=600").started()
    server.signal()
    server.wait_for("Not ready any more; requests are accepted for 600 s")
    assert server.ask("GET", "/v2/health/ready").status == 400
    assert server.ask("GET", "/v2/health/live").status == 200
    assert server.ask("POST", "/v2/models/m/infer", BODY).json()["outputs"][0]["data"] == [4.0]
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        assert not client.is_server_ready()
        assert client.is_model_ready("m")
    server.signal()
    assert server.exit_code() == 0
    assert "Another signal" in server.text


def test_a_delay_ends_by_itself_and_then_requests_in_flight_are_answered(serve, repository):
    repository.add("slow", delay_ms=2000)
    server = serve(repository.flag, "--drain-delay-secs=1").started()
    server.signal()
    server.wait_for("Not ready any more")
    request = InFlight(server, "slow")
    assert request.result() == 200
    assert server.exit_code() == 0
    assert "Another signal" not in server.text


RESPONSES = 50
STREAM_CONFIG = """
    model_transaction_policy { decoupled: true }
    input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
    output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
"""
# Goes on from the middle of its responses when somebody writes into the pipe `go`.
STREAM_MODEL = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            for number in range(RESPONSES):
                if number == RESPONSES // 2:
                    open("GO").read()
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_of_the_service_leaves_a_stream_its_end(serve, repository, tmp_path, number):
    go = tmp_path / "go"
    os.mkfifo(go)
    code = STREAM_MODEL.replace("RESPONSES", str(RESPONSES)).replace("GO", str(go))
    write_python_model(repository.path, "stream", STREAM_CONFIG, code)
    server = serve(repository.flag).started()
    connection = server.connect()
    connection.request("POST", "/v2/models/stream/generate_stream", '{"X": 1}')
    stream = connection.getresponse()
    first = [stream.readline() for _ in range(RESPONSES)]  # each event is a line and an empty one
    for process in psutil.Process(server.process.pid).children(recursive=True):
        process.send_signal(number)
    server.signal(number)
    server.wait_for("Waiting for in-flight requests to complete: 1 now")
    go.write_text("go")
    events = [line for line in (*first, *stream.read().splitlines()) if line.startswith(b"data:")]
    connection.close()
    assert [json.loads(event.removeprefix(b"data:"))["Y"] for event in events] == list(range(RESPONSES))
    assert server.exit_code() == 0
