"""Clients that are slow, silent or many: each limit ends what it should, says so, and nobody else waits."""

import errno
import resource
import socket
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import grpc
import pytest

from tests.certificates import Authority
from tests.wire.served import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PATIENCE_S,
    PREFACE,
    SETTINGS,
    Served,
    begun,
    call_headers,
    frame,
    frames,
    grpc_value,
    json_body,
    message,
    read_all,
    read_answer,
    read_until_ended,
    request,
    stub,
)

GOOD = json_body([1.5])


@pytest.fixture
def hasty(transport: Authority | None) -> Iterator[Served]:
    with Served(transport, read_timeout_ms=200, idle_timeout_ms=0) as running:
        yield running
        assert running.answers()


@pytest.mark.parametrize("sent", [b"P", b"POST /v2/mod", request(GOOD)[:60], b"PRI * HTTP/2.0\r\n"])
def test_a_head_that_does_not_end(hasty: Served, sent: bytes) -> None:
    connection = hasty.connect()
    connection.sendall(sent)
    assert b" 200 " not in read_all(connection)
    connection.close()


def test_a_second_head_that_does_not_end(hasty: Served) -> None:
    connection = hasty.connect()
    connection.sendall(request(GOOD))
    assert b"1.5" in read_answer(connection)
    connection.sendall(b"GET /v2/he")
    read_all(connection)
    connection.close()


@pytest.mark.parametrize("sent", [GOOD[:-1], b""])
def test_a_body_that_does_not_end(hasty: Served, sent: bytes) -> None:
    connection = hasty.connect()
    connection.sendall(request(sent, f"Content-Length: {len(GOOD)}"))
    answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"--read-timeout-secs" in answer
    connection.close()


def test_a_body_of_chunks_that_does_not_end(hasty: Served) -> None:
    connection = hasty.connect()
    connection.sendall(request(b"5\r\n12345\r\n", "Transfer-Encoding: chunked"))
    assert read_all(connection).startswith(b"HTTP/1.1 408 ")
    connection.close()


def test_a_trickle_is_too_slow_although_it_never_stops(hasty: Served) -> None:
    connection = hasty.connect()
    connection.sendall(request(b"", "Content-Length: 1000000"))
    connection.settimeout(0.02)
    answer = b""
    while not answer:
        connection.sendall(b" ")
        try:
            answer = connection.recv(65536)
        except TimeoutError:
            continue
    assert answer.startswith(b"HTTP/1.1 408 ")
    connection.close()


@pytest.mark.parametrize("sent", [b"", b"\0\0\0\0\x10", b"\0\0\0\0\x10abc"])
def test_a_message_that_does_not_end(hasty: Served, sent: bytes) -> None:
    connection = begun(hasty, "grpc")
    connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers()) + frame(DATA, 0, 1, sent))
    answer = read_until_ended(connection, 1)
    assert any(kind == HEADERS and flags & END_STREAM for kind, flags, _, _ in frames(answer))
    connection.close()


def test_a_frame_that_does_not_end(hasty: Served) -> None:
    connection = begun(hasty, "grpc")
    connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers())[:-3])
    read_all(connection)
    connection.close()


def test_a_header_block_that_stops(hasty: Served) -> None:
    connection = begun(hasty, "grpc")
    connection.sendall(frame(HEADERS, 0, 1, call_headers()))
    read_all(connection)
    connection.close()


def test_silence_between_requests_is_no_slowness(hasty: Served) -> None:
    """The marker connection is ended by the same limit, so by then the silent ones have been silent for as long."""
    http, channel = hasty.connect(), hasty.channel()
    http.sendall(request(GOOD))
    assert b"1.5" in read_answer(http)
    asks: SimpleQueue[Any] = SimpleQueue()
    stream = stub(channel).ModelStreamInfer(iter(asks.get, None))
    for _ in range(2):
        test_a_head_that_does_not_end(hasty, b"P")
    http.sendall(request(GOOD))
    assert b"1.5" in read_answer(http)
    asks.put(message([2.5]))
    assert grpc_value(next(stream).infer_response) == 2.5
    asks.put(None)
    http.close()
    channel.close()


def test_idle_connections_end_after_their_time(transport: Authority | None) -> None:
    with Served(transport, idle_timeout_ms=100) as served:
        for connection in (served.connect(), served.connect("grpc"), begun(served, "grpc"), begun(served)):
            read_all(connection)
            connection.close()
        connection = served.connect()
        connection.sendall(request(GOOD))
        assert b"1.5" in read_answer(connection)
        assert read_all(connection) == b""
        connection.close()


def test_a_call_in_flight_keeps_its_connection(transport: Authority | None) -> None:
    with Served(transport, idle_timeout_ms=100) as served, served.channel() as channel:
        watching = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert next(watching) == b"\x08\x01"
        idle = served.connect()
        read_all(idle)
        idle.close()
        assert watching.is_active()
        watching.cancel()


def held(served: Served, count: int, sent: bytes, door: str) -> list[socket.socket]:
    connections = [served.connect(door) for _ in range(count)]
    for connection in connections:
        connection.sendall(sent)
    return connections


@pytest.mark.parametrize(
    ("door", "sent"),
    [
        ("http", b""),
        ("http", b"POST /v2"),
        ("http", request(b"half", "Content-Length: 100")),
        ("grpc", b""),
        ("grpc", PREFACE + frame(SETTINGS)),
        ("grpc", PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, call_headers())),
    ],
)
def test_connections_beyond_the_limit_take_the_place_of_idle_ones(
    transport: Authority | None, door: str, sent: bytes
) -> None:
    with Served(transport, max_connections=20) as served:
        connections = held(served, 100, sent, door)
        for connection in connections[:80]:
            read_all(connection)
        for _ in range(5):
            assert served.answers()
        for connection in connections:
            connection.close()


def test_a_connection_at_work_is_not_ended_for_another(transport: Authority | None) -> None:
    with Served(transport, max_connections=4) as served:
        served.wire.publish(True, True, {("m", ""): (True, 0, False)})
        asking = served.connect()
        asking.sendall(request(b"{}", path="/v2/repository/index"))
        (call,) = served.wire.take_control(1, PATIENCE_S)
        connections = held(served, 20, b"", "http")
        for connection in connections[:17]:
            read_all(connection)
        assert served.answers()
        call.start(200, [(b"content-length", b"2")])  # type: ignore[union-attr]
        call.write(b"ok", True)  # type: ignore[union-attr]
        assert read_answer(asking).endswith(b"ok")
        for connection in (asking, *connections):
            connection.close()


def until_no_file_is_left(served: Served) -> Iterator[socket.socket]:
    while True:
        try:
            yield served.connect()
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            return


def test_where_no_file_can_be_opened_idle_connections_give_way() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Served() as served:
        connections = held(served, 50, b"", "http")
        lowest_free = connections[-1].fileno() + 60
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            connections.extend(until_no_file_is_left(served))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert served.answers()
        for connection in connections:
            connection.close()


def test_the_head_has_a_limit() -> None:
    with Served(max_header_bytes=2000) as served:
        connection = served.connect()
        connection.sendall(request(GOOD, "X-Long: " + "a" * 2000))
        answer = read_answer(connection)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"--max-header-size" in answer
        connection.close()
        with served.channel() as channel, pytest.raises(grpc.RpcError):
            stub(channel).ModelInfer(message([1.5]), metadata=[("x-long", "a" * 2000)], timeout=PATIENCE_S)
        assert served.answers()


def test_names_have_a_limit() -> None:
    with Served(request_max_tensors=3, request_max_parameters=2) as served, served.channel() as channel:
        connection = served.connect()
        many = b'{"inputs":[' + b",".join([GOOD[len(b'{"inputs": [') : -2]] * 4) + b"]}"
        crowded = GOOD[:-1] + b',"parameters":{"a":1,"b":2,"c":3}}'
        for body, flag in ((many, b"--request-max-tensors"), (crowded, b"--request-max-parameters")):
            connection.sendall(request(body))
            answer = read_answer(connection)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert flag in answer
        connection.close()
        outputs = message([1.5])
        for name in "abcd":
            outputs.outputs.add(name=name)
        parameters = message([1.5])
        for name in "abc":
            parameters.parameters[name].int64_param = 1
        for asked, told in ((outputs, "--request-max-tensors"), (parameters, "--request-max-parameters")):
            with pytest.raises(grpc.RpcError, match=told):
                stub(channel).ModelInfer(asked, timeout=PATIENCE_S)
        assert grpc_value(stub(channel).ModelInfer(message([1.5]), timeout=PATIENCE_S)) == 1.5


def test_numbers_of_json_have_a_limit_in_memory() -> None:
    """Two bytes of text become eight in memory."""
    with Served(http_max_input_bytes=100_000) as served:
        connection = served.connect()
        numbers = b'"data":[' + b",".join([b"1"] * 20_000) + b"]"
        kind = b'"shape":[20000],"datatype":"FP64"'
        for fields in ((numbers, kind), (kind, numbers), (kind.replace(b"20000", b"1"), numbers)):
            connection.sendall(request(b'{"inputs":[{"name":"X",' + b",".join(fields) + b"}]}"))
            answer = read_answer(connection)
            assert answer.startswith(b"HTTP/1.1 400 "), answer
            assert b"exceeds the maximum allowed value of 100000 bytes" in answer
        connection.close()
