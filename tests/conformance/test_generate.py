"""generate and generate_stream on the wire: framing, headers, events as they come, clients that leave or are slow."""

import gzip
import http.client
import json
import os
import socket
import threading
from contextlib import contextmanager

import psutil
import pytest

from charonia.api import Server
from charonia.frontend.wire_flow import WireFlow
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_python_model

CONFIG = """
model_transaction_policy { decoupled: true }
input { name: "PIPE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }
parameters { key: "execution" value { string_value: "inline" } }
"""
# Answers with what it reads from the pipe, one response for each byte; says in the other pipe how it ended.
CODE = """
import os
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            path = pb_utils.get_input_tensor_by_name(request, "PIPE").as_numpy()[0].decode()
            threading.Thread(target=self.run, args=(request.get_response_sender(), path)).start()

    def run(self, sender, path):
        with open(path, "rb", buffering=0) as pipe:  # a pipe, or a file that has all of it
            while byte := pipe.read(1):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array([byte], np.object_))]))
        with open(path + "-end", "w") as end:
            end.write("read to its end")
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
PATIENT = """
import threading
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            path = pb_utils.get_input_tensor_by_name(request, "PIPE").as_numpy()[0].decode()
            threading.Thread(target=self.run, args=(request.get_response_sender(), path)).start()

    def run(self, sender, path):
        with open(path + "-end", "wb", buffering=0) as end:
            end.write(b"started")
            while not sender.is_cancelled():
                time.sleep(0.001)
            end.write(b"cancelled")
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
BULK = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.run, args=(request.get_response_sender(),)).start()

    def run(self, sender):
        text = pb_utils.Tensor("TEXT", np.array(["x" * 1_000_000], np.object_))
        for _ in range(400):
            if sender.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse([text]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


class Script:
    """The test's end of the pipes of one request."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        os.mkfifo(f"{path}-end")
        self._pipe = os.open(path, os.O_RDWR)
        self._end = os.open(f"{path}-end", os.O_RDWR)
        self._words = os.open(path, os.O_WRONLY)

    def say(self, text):
        os.write(self._words, text.encode() if isinstance(text, str) else text)

    def started(self):
        """Wait for the model to have the request."""
        assert os.read(self._end, 100) == b"started"

    def finish(self):
        for end in (self._pipe, self._words):
            os.close(end)

    def ending(self):
        return os.read(self._end, 100).decode()

    def close(self):
        os.close(self._end)


@pytest.fixture
def script(tmp_path):
    made = Script(tmp_path / "pipe")
    yield made
    made.close()


@pytest.fixture
def written(tmp_path):
    """written("ab") asks for these responses, which are there already."""

    def write(text, name="written"):
        (tmp_path / name).write_bytes(text.encode())
        return json.dumps({"PIPE": str(tmp_path / name)})

    return write


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    write_python_model(folder, "script", CONFIG, CODE)
    write_python_model(folder, "patient", CONFIG, PATIENT)
    write_python_model(folder, "bulk", CONFIG, BULK)
    with Server(folder, http_port=0) as running:
        yield running


@pytest.fixture
def connection(server):
    opened = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    yield opened
    opened.close()


@contextmanager
def client_of(server, route, body):
    """A bare connection that has sent this request."""
    text = (body if isinstance(body, str) else json.dumps(body)).encode()
    head = f"POST /v2/models/{route} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=PATIENCE_S) as opened:
        opened.sendall(head + text)
        yield opened


def read_until(opened, end):
    got = b""
    while not got.endswith(end):
        piece = opened.recv(65536)
        assert piece, got
        got += piece
    return got


def event(text):
    return b'data: {"TEXT":"%b","model_name":"script","model_version":"1"}\n\n' % text.encode()


def test_each_event_is_a_chunk_and_comes_when_its_response_does(server, script):
    with client_of(server, "script/generate_stream", {"PIPE": str(script.path)}) as client:
        script.say("a")
        head = read_until(client, event("a") + b"\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"content-type: text/event-stream; charset=utf-8\r\n" in head.lower()
        assert b"transfer-encoding: chunked\r\n" in head.lower()
        for text in ("b", "c"):
            script.say(text)
            assert read_until(client, b"\n\n\r\n") == b"%X\r\n%b\r\n" % (len(event(text)), event(text))
        script.finish()
        assert script.ending() == "read to its end"
        assert read_until(client, b"\r\n\r\n") == b"0\r\n\r\n"
        client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_character_is_sent_when_it_is_whole(server, written):
    with client_of(server, "script/generate_stream", written("é😀")) as client:
        got = read_until(client, b"0\r\n\r\n")
    assert [got.count(event(text)) for text in ("", "é", "😀")] == [4, 1, 1]


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
def test_a_client_that_leaves_before_the_first_response_cancels(server, script, route):
    with client_of(server, f"patient/{route}", {"PIPE": str(script.path)}):
        script.started()
    assert script.ending() == "cancelled"


def test_a_slow_reader_makes_the_model_wait(server, script, monkeypatch):
    """400 MB are on their way to a client that does not read yet."""
    waits, on_room = threading.Event(), WireFlow.on_room

    def watched(flow, listener):
        if not flow.has_room():
            waits.set()
        on_room(flow, listener)

    monkeypatch.setattr(WireFlow, "on_room", watched)
    before = psutil.Process().memory_info().rss
    with client_of(server, "bulk/generate_stream", {"PIPE": "none"}) as client:
        assert waits.wait(PATIENCE_S)
        assert psutil.Process().memory_info().rss - before < 100 << 20
        count, last = 0, b""
        while not last.endswith(b"0\r\n\r\n"):
            piece = client.recv(1 << 20)
            count += (last[-6:] + piece).count(b"data: ") - last[-6:].count(b"data: ")
            last = last[-6:] + piece
    assert count == 400


@pytest.mark.parametrize("accepts", ["gzip", "deflate, gzip"])
def test_answers_are_not_compressed(connection, written, accepts):
    connection.request("POST", "/v2/models/script/generate", written("a"), {"Accept-Encoding": accepts})
    answer = connection.getresponse()
    assert answer.getheader("content-encoding") is None
    assert answer.getheader("transfer-encoding") == "chunked"
    assert answer.read() == b'{"TEXT":"a","model_name":"script","model_version":"1"}'


def test_a_compressed_body_is_read(connection, written):
    body = gzip.compress(written("a").encode())
    connection.request("POST", "/v2/models/script/generate", body, {"Content-Encoding": "gzip"})
    assert json.loads(connection.getresponse().read())["TEXT"] == "a"


def test_a_version_and_names_with_percent_signs(connection, written):
    connection.request("POST", "/v2/models/%73cript/versions/1/generate", written("a"))
    assert json.loads(connection.getresponse().read())["TEXT"] == "a"


def test_http_1_0_gets_its_events_too(server, written):
    text = written("a").encode()
    head = f"POST /v2/models/script/generate_stream HTTP/1.0\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=PATIENCE_S) as client:
        client.sendall(head + text)
        got = b""
        while piece := client.recv(65536):
            got += piece
    assert b"chunked" not in got
    assert got.endswith(event("a"))


def test_two_requests_behind_one_another_are_answered_in_order(server, script, written):
    asked = b""
    for text in (json.dumps({"PIPE": str(script.path)}).encode(), written("2").encode()):
        head = f"POST /v2/models/script/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
        asked += head.encode() + text
    with socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=PATIENCE_S) as client:
        client.sendall(asked)
        script.say("1")
        got = read_until(client, event("1") + b"\r\n")
        script.finish()
        while got.count(b"\r\n0\r\n\r\n") < 2:
            got += client.recv(65536)
    assert got.index(b'"TEXT":"1"') < got.index(b'"TEXT":"2"')


@pytest.mark.parametrize(
    "body",
    [
        b'{"PIPE": ' + b"[" * 200_000,
        b'{"parameters": {' + b",".join(b'"p%d": 1' % number for number in range(100_000)) + b"}}",
        b'{"a": [' + b"[]," * 3_000_000 + b"[]]}",
        b'{"PIPE": "' + b"\\ud800" * 1000 + b'"}',
        b'{"PIPE": "\xff"}',
        b"\x00" * 1000,
    ],
    ids=["brackets", "parameters", "lists", "surrogates", "bytes", "nulls"],
)
def test_hostile_bodies(server, connection, body):
    before = psutil.Process().memory_info().rss
    for route in ("generate", "generate_stream"):
        connection.request("POST", f"/v2/models/script/{route}", body)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("content-type")) == (400, "application/json")
        assert list(json.loads(answer.read())) == ["error"]
    assert psutil.Process().memory_info().rss - before < 100 << 20
    assert server.live


def test_a_stop_waits_for_open_streams(tmp_path, script):
    write_python_model(tmp_path / "models", "script", CONFIG, CODE)
    server = Server(tmp_path / "models", http_port=0).start()
    with client_of(server, "script/generate_stream", {"PIPE": str(script.path)}) as client:
        script.say("a")
        read_until(client, event("a") + b"\r\n")
        stopped = []
        stop = threading.Thread(target=lambda: stopped.append(server.stop()))
        stop.start()
        script.say("b")
        read_until(client, event("b") + b"\r\n")
        script.finish()
        assert read_until(client, b"0\r\n\r\n")
        stop.join(PATIENCE_S)
    assert stopped == [True]
