"""Clients that are slow, many, rude, or speak another language. Others are answered meanwhile and afterwards."""

import gzip
import json
import socket
from contextlib import ExitStack

import grpc
import numpy as np
import psutil
import pytest

from tests.every_door.doors import DOORS
from tests.every_door.raw import RawGrpc, RawHttp, http_request, infer_pb2, one_input
from tests.every_door.served import ask
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

LIMIT = 4_000_000
OPTIONS = {"http_max_input_size": LIMIT, "exit_timeout_secs": 5}
# Pure Python until the test says stop: it never lets go of the interpreter by itself.
SPINS = """
    import builtins

    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            builtins.charonia_test_entered.set()
            while not builtins.charonia_test_stop:
                pass
            arrays = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""


def lay_out(repository):
    onnx_models.save(onnx_models.identity("FP32", ["length"]), repository, "FP32")
    write_config(repository, "FP32", "max_batch_size: 0")
    write_python_model(
        repository,
        "spins",
        """
        input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
        output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
        parameters { key: "execution" value { string_value: "inline" } }
        """,
        SPINS,
    )


GOOD = json.dumps(one_input([1.5, -2])).encode()
PATH = "/v2/models/FP32/infer"


def everybody_is_answered(server):
    for name in DOORS:
        answer = ask(name, server, "FP32", {"INPUT0": np.array([1.5, -2], np.float32)})
        assert answer["OUTPUT0"].tolist() == [1.5, -2]
    assert server.live


@pytest.fixture
def connect(server):
    """Opens sockets to a port of the server, and closes them after the test."""
    with ExitStack() as held:
        yield lambda door="http": held.enter_context(
            socket.create_connection(("127.0.0.1", server.ports[door]), timeout=PATIENCE_S)
        )


def test_connections_that_say_nothing_or_half_of_it(server, connect):
    for sent in (b"", b"P", b"POST /v2/mod", http_request(PATH, b"", [f"Content-Length: {len(GOOD)}"]), b"\r\n"):
        for _ in range(40):
            connect().sendall(sent)
    for sent in (b"", b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        for _ in range(20):
            connect("grpc").sendall(sent)
    everybody_is_answered(server)


def test_a_body_that_trickles_in(server, connect):
    slow = connect()
    slow.sendall(http_request(PATH, b"", [f"Content-Length: {len(GOOD)}"]))
    for at in range(len(GOOD) - 1):
        slow.sendall(GOOD[at : at + 1])
        if at % 40 == 0:
            everybody_is_answered(server)
    slow.sendall(GOOD[-1:])
    assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_clients_that_never_read_their_answers(server, connect):
    large = json.dumps(one_input([0.5] * 400_000)).encode()
    for _ in range(8):
        connect().sendall(http_request(PATH, large))
    everybody_is_answered(server)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"\0" * 10_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0" + b"\0\xff\xff\x01\x05\0\0\0\x01" + b"\x82" * 500,
    ],
)
@pytest.mark.parametrize("door", ["grpc", "http"])
def test_other_languages(server, connect, door, request_bytes):
    opened = connect(door)
    try:
        opened.sendall(request_bytes)
        opened.shutdown(socket.SHUT_WR)
        while opened.recv(65536):
            pass
    except OSError:
        pass  # it may hang up while we are talking
    everybody_is_answered(server)


@pytest.mark.parametrize(
    "headers",
    [
        [f"Content-Length: {len(GOOD)}", f"Content-Length: {len(GOOD) - 1}"],
        [f"Content-Length: {len(GOOD)}", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: nonsense"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ],
)
def test_lengths_that_contradict_one_another_are_never_two_requests(server, connect, headers):
    opened = connect()
    opened.sendall(http_request(PATH, GOOD, headers))
    opened.shutdown(socket.SHUT_WR)
    answer = b""
    try:
        while piece := opened.recv(65536):
            answer += piece
    except OSError:
        pass
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b"HTTP/1.1 200" not in answer
    everybody_is_answered(server)


@pytest.mark.parametrize("timeout", ["", "x", "1", "-1S", "99999999999999S", "1.5S", "0n"])
def test_grpc_deadlines_that_are_none(server, timeout):
    door = RawGrpc(server)
    asked = infer_pb2.ModelInferRequest(model_name="FP32", raw_input_contents=[bytes(8)])
    asked.inputs.add(name="INPUT0", datatype="FP32", shape=[2])
    try:
        door.stub.ModelInfer(asked, metadata=[("grpc-timeout", timeout)], timeout=PATIENCE_S)
    except (grpc.RpcError, ValueError):
        pass
    door.close()
    everybody_is_answered(server)


def test_a_thousand_calls_at_once_on_one_channel(server):
    door = RawGrpc(server)
    calls = []
    for value in range(1000):
        raw = np.array([value], np.float32).tobytes()
        asked = infer_pb2.ModelInferRequest(model_name="FP32", id=str(value), raw_input_contents=[raw])
        asked.inputs.add(name="INPUT0", datatype="FP32", shape=[1])
        calls.append(door.stub.ModelInfer.future(asked))
    for value, call in enumerate(calls):
        answer = call.result(timeout=PATIENCE_S)
        assert answer.id == str(value)
        assert np.frombuffer(answer.raw_output_contents[0], np.float32) == [value]
    door.close()


def test_memory_comes_back_after_refusals(server):
    """Bodies that are too long, inflate too far, or stop half-way hold nothing once they are refused."""
    http = RawHttp(server)
    bomb, process = gzip.compress(b" " * 50_000_000), psutil.Process()

    def abuse(times):
        for _ in range(times):
            assert http.post("FP32", bomb, {"Content-Encoding": "gzip"}).status_code == 400
            assert http.post("FP32", b" " * (LIMIT + 1)).status_code == 400
            assert http.post("FP32", b"[" * LIMIT).status_code == 400
            with socket.create_connection(("127.0.0.1", http.port), timeout=PATIENCE_S) as half:
                half.sendall(http_request(PATH, b" " * (LIMIT - 1), [f"Content-Length: {LIMIT}"]))

    abuse(3)
    before = process.memory_info().rss
    abuse(20)
    assert process.memory_info().rss - before < 20 * LIMIT  # a leak of any of the four would keep more
    http.close()
    everybody_is_answered(server)


def test_memory_comes_back_after_floods(server):
    """Many connections at once, and messages that are compressed, huge, empty or never end."""
    door, process = RawGrpc(server), psutil.Process()
    infer = door.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    zeros = infer_pb2.ModelInferRequest(model_name="nope", raw_input_contents=[bytes(20_000_000)]).SerializeToString()
    many = infer_pb2.ModelInferRequest(model_name="FP32", raw_input_contents=[b""] * 300_000).SerializeToString()

    def abuse():
        for message, compression in ((zeros, grpc.Compression.Gzip), (many, None), (zeros[:-7], None)):
            with pytest.raises(grpc.RpcError):
                infer(message, compression=compression, timeout=PATIENCE_S)
        with ExitStack() as held:
            for port in ("http", "grpc") * 100:
                opened = held.enter_context(socket.create_connection(("127.0.0.1", server.ports[port])))
                opened.sendall(b"POST /v2/models/FP32/infer HTTP/1.1\r\nX-A: " + b"a" * 10_000)

    abuse()
    abuse()
    before = process.memory_info().rss
    for _ in range(5):
        abuse()
    assert process.memory_info().rss - before < 80_000_000  # one message kept each time would be 100 MB
    door.close()
    everybody_is_answered(server)


def test_an_inline_model_that_computes_slows_others_and_starves_nobody(server, monkeypatch):
    import builtins
    import threading

    entered = threading.Event()
    monkeypatch.setattr(builtins, "charonia_test_entered", entered, raising=False)
    monkeypatch.setattr(builtins, "charonia_test_stop", False, raising=False)
    spinning = server.model("spins").submit({"IN": np.ones(1, np.float32)})
    try:
        assert entered.wait(PATIENCE_S)
        everybody_is_answered(server)
        assert not spinning.done()
    finally:
        builtins.charonia_test_stop = True
    assert spinning.result(PATIENCE_S).outputs["OUT"].numpy().tolist() == [1]
