"""Headers that go on with calls: their names as clients spell them, one request behind another, and over HTTP/2."""

import socket
from collections.abc import Iterator

import pytest

from charonia._wire import HttpCall, InferCall, WireOptions, WireServer
from tests.wire.served import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PATIENCE_S,
    PREFACE,
    SETTINGS,
    call_headers,
    frame,
    header_block,
    json_body,
    message,
    request,
)

BODY = json_body([1.5])
MESSAGE = message([1.5]).SerializeToString()


class Taker:
    """A wire whose calls are looked at and dropped."""

    def __init__(self, pattern: str) -> None:
        self.wire = WireServer(
            WireOptions(
                http_address="127.0.0.1",
                http_port=0,
                grpc_address="127.0.0.1",
                grpc_port=0,
                http_forward_pattern=pattern,
                grpc_forward_pattern=pattern,
            )
        )
        self.wire.start()
        self.wire.publish(True, True, {("m", ""): (True, 0, False)})
        self._connections: list[socket.socket] = []

    def send(self, sent: bytes, door: str = "http") -> None:
        port = self.wire.ports[door]
        connection = socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE_S)
        self._connections.append(connection)
        connection.sendall(sent)

    def forwarded(self) -> list[tuple[str, str]]:
        (call,) = self.wire.take(1, PATIENCE_S)
        assert isinstance(call, InferCall)
        return call.forwarded

    def forwarded_of_control(self) -> list[tuple[str, str]]:
        (call,) = self.wire.take_control(1, PATIENCE_S)
        assert isinstance(call, HttpCall)
        return call.forwarded


@pytest.fixture
def taker() -> Iterator[Taker]:
    made = Taker("^x-|(?-i)my_")
    yield made
    made.wire.shutdown(0.0)


def test_names_are_as_they_were_sent(taker: Taker) -> None:
    taker.send(request(BODY, "X-Trace: 1", "x-trace:  2 ", "My_thing: no", "MY_x: no", "my_Own: caf\xe9", "Other: no"))
    assert taker.forwarded() == [("X-Trace", "1"), ("x-trace", "2 "), ("my_Own", "café")]


def test_without_a_pattern_nothing_is_forwarded() -> None:
    taker = Taker("")
    taker.send(request(BODY, "X-Trace: 1"))
    assert taker.forwarded() == []
    taker.wire.shutdown(0.0)


def test_requests_behind_one_another_keep_their_own(taker: Taker) -> None:
    chunks = b"%x\r\n%s\r\n0\r\nX-Trailer: no\r\n\r\n" % (len(BODY), BODY)
    taker.send(
        request(BODY, "X-First: 1")
        + request(chunks, "X-Second: 2", "Transfer-Encoding: chunked")
        + b"\r\nGET /v2/repository HTTP/1.1\r\nHost: h\r\nX-Third: 3\r\n\r\n"
        + request(BODY, "X-Fourth: 4")
    )
    assert taker.forwarded() == [("X-First", "1")]
    assert taker.forwarded() == [("X-Second", "2")]
    assert taker.forwarded_of_control() == [("X-Third", "3")]
    assert taker.forwarded() == [("X-Fourth", "4")]


def test_a_request_in_small_pieces(taker: Taker) -> None:
    connection = socket.create_connection(("127.0.0.1", taker.wire.ports["http"] or 0), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request(BODY, "X-Slow: 1"):
        connection.sendall(bytes((byte,)))
    assert taker.forwarded() == [("X-Slow", "1")]
    connection.close()


def test_http2_has_lower_case_only(taker: Taker) -> None:
    head = header_block(
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v2/models/m/infer"),
        (":authority", "h"),
        ("x-trace", "1"),
        ("my_own", "2"),
        ("x-trace", "3"),
    )
    taker.send(PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, head) + frame(0, END_STREAM, 1, BODY))
    assert sorted(taker.forwarded()) == [("my_own", "2"), ("x-trace", "1"), ("x-trace", "3")]


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
def test_metadata(method: str) -> None:
    taker = Taker(".*")
    headers = call_headers(method, ("x-trace", "1"), ("grpc-timeout", "9S"), ("user-agent", "test"))
    body = b"\0" + len(MESSAGE).to_bytes(4, "big") + MESSAGE
    sent = PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, headers) + frame(0, END_STREAM, 1, body)
    taker.send(sent, "grpc")
    assert sorted(taker.forwarded()) == [("user-agent", "test"), ("x-trace", "1")]
    taker.wire.shutdown(0.0)
