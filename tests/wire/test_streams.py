"""Streams as Python drives them: order, bare ends, room for more, clients that leave. Over gRPC and in HTTP bodies."""

import socket
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import grpc
import numpy as np
import pytest

from charonia._wire import HttpCall, InferCall, Reply, WireOptions, WireServer
from charonia.core.errors import Code
from charonia.core.log import SilentLog
from charonia.core.request import InferRequest
from charonia.core.request import Reply as CoreReply
from charonia.core.tensor import Tensor
from charonia.frontend.ingress import Ingress
from tests.wire.served import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PATIENCE_S,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    call_headers,
    frame,
    frames,
    header_block,
    message,
    request,
    stub,
)

ROOM_MESSAGES = 64

Asked = TypeVar("Asked")


@pytest.fixture
def server() -> Iterator[WireServer]:
    made = WireServer(
        WireOptions(
            http_address="127.0.0.1", http_port=0, grpc_address="127.0.0.1", grpc_port=0, write_timeout_ms=60_000
        )
    )
    made.start()
    made.publish(True, True, {("m", ""): (True, 0, False), ("d", ""): (True, 0, True)})
    yield made
    made.shutdown(0.0)


def asked(model: str, id: str, **parameters: bool) -> Any:
    made = message([1.0], id=id)
    made.model_name = model
    for name, value in parameters.items():
        made.parameters[name].bool_param = value
    return made


class Stream:
    """One stream of the real stubs; `ask` gives the call that a request became."""

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._requests: SimpleQueue[Any] = SimpleQueue()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}")
        self.answers = stub(self._channel).ModelStreamInfer(iter(self._requests.get, None))

    def ask(self, model: str, id: str, **parameters: bool) -> InferCall:
        self._requests.put(asked(model, id, **parameters))
        return take_call(self._server)

    def end(self) -> list[str]:
        """The ids of the messages that are left."""
        self._requests.put(None)
        ids = [answer.infer_response.id for answer in self.answers]
        self._channel.close()
        return ids


@pytest.fixture
def stream(server: WireServer) -> Stream:
    return Stream(server)


def take_call(server: WireServer) -> InferCall:
    (call,) = server.take(1, PATIENCE_S)
    assert isinstance(call, InferCall)
    return call


def response(call: InferCall, final: bool = False, size: int = 1) -> Reply:
    return (call, "d", "1", [("Y", "UINT8", (size,), bytes(size), False)], None, final)


def bare_end(call: InferCall) -> Reply:
    return (call, "d", "1", None, None, True)


def test_a_batch_of_replies_to_many_calls(server: WireServer, stream: Stream) -> None:
    plain, other = stream.ask("m", "plain"), stream.ask("m", "other")
    talkers = [stream.ask("d", f"d{number}") for number in range(3)]
    assert [call.unpack()[13] for call in (plain, talkers[0])] == [True, True]
    server.reply_batch([response(call) for call in talkers for _ in range(2)])
    server.reply_batch([response(other, True), bare_end(talkers[1])])
    server.fail_batch([(talkers[0], 13, "boom", True, True)])
    server.reply_batch([response(plain, True), response(talkers[2], True), response(talkers[0])])
    assert server.counters().late_replies == 1
    assert stream.end() == ["d0", "d0", "d1", "d1", "d2", "d2", "d0", "plain", "other", "d2"]
    assert server.counters().unsettled_calls == 0


def test_the_bare_end_is_sent_to_who_asks(server: WireServer, stream: Stream) -> None:
    calls = [stream.ask("d", "no"), stream.ask("d", "yes", triton_enable_empty_final_response=True)]
    server.reply_batch([bare_end(call) for call in calls])
    assert stream.end() == ["yes"]


def test_a_plain_call_is_no_stream(server: WireServer) -> None:
    with socket.create_connection(("127.0.0.1", server.ports["http"] or 0), PATIENCE_S) as connection:
        connection.sendall(request(b'{"inputs":[{"name":"X","datatype":"FP32","shape":[1],"data":[1]}]}'))
        call = take_call(server)
        assert (call.unpack()[13], call.has_room) == (False, True)
        server.reply_batch([bare_end(call)])
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b"without a response" in answer


class SlowReader(Generic[Asked]):
    """A stream over HTTP/2 whose window is opened by hand. `take` gives what each of its requests becomes."""

    def __init__(self, server: WireServer, take: Callable[[], Asked], *models: str) -> None:
        self._take = take
        self._connection = socket.create_connection(("127.0.0.1", server.ports["grpc"] or 0), PATIENCE_S)
        begin = frame(HEADERS, END_HEADERS, 1, call_headers("ModelStreamInfer"))
        self._connection.sendall(PREFACE + frame(SETTINGS) + begin)
        self.calls = [self._ask(model) for model in models]

    def _ask(self, model: str) -> Asked:
        body = asked(model, "").SerializeToString()
        self._connection.sendall(frame(DATA, 0, 1, b"\0" + len(body).to_bytes(4, "big") + body))
        return self._take()

    def open_window(self, size: int) -> None:
        for at in (0, 1):
            self._connection.sendall(frame(WINDOW_UPDATE, 0, at, size.to_bytes(4, "big")))

    def read(self, least: int) -> int:
        """Bytes of answers, once there are at least so many."""
        received = b""
        while (count := sum(len(payload) for kind, _, _, payload in frames(received) if kind == DATA)) < least:
            piece = self._connection.recv(1 << 16)
            assert piece
            received += piece
        return count

    def reset(self) -> None:
        self._connection.sendall(frame(RST_STREAM, 0, 1, (8).to_bytes(4, "big")))

    def close(self) -> None:
        self._connection.close()


def slow_reader(server: WireServer, *models: str) -> SlowReader[InferCall]:
    return SlowReader(server, lambda: take_call(server), *models)


def fill(server: WireServer, call: InferCall, size: int) -> int:
    """Answer until there is no room; how many responses that took."""
    count = 0
    while call.has_room:
        server.reply_batch([response(call, size=size)])
        count += 1
    return count


@pytest.mark.parametrize("size", [5000, 200_000])
def test_a_slow_reader_has_no_room_and_gets_it_back(server: WireServer, size: int) -> None:
    reader = slow_reader(server, "d", "d")
    call, other = reader.calls
    sent = fill(server, call, size)
    assert sent * size < 4 << 20, "what waits is bounded"
    assert other.has_room
    assert server.take(1, 0.0) == []
    reader.open_window(1 << 30)
    assert reader.read(sent * size) >= sent * size
    assert server.take(1, PATIENCE_S) == [call.key]
    assert (call.has_room, call.is_cancelled) == (True, False)
    server.reply_batch([bare_end(each) for each in (call, other)])
    reader.close()


@pytest.mark.parametrize("leave", [SlowReader.reset, SlowReader.close])
def test_a_reader_that_leaves_cancels_all_that_it_asked_for(server: WireServer, leave: Any) -> None:
    reader = slow_reader(server, "d", "m", "d", "m")
    fill(server, reader.calls[0], 5000)
    leave(reader)
    keys, told = {call.key for call in reader.calls}, set[Any]()
    while told != keys or not all(call.is_cancelled for call in reader.calls):
        news = server.take(8, PATIENCE_S)
        assert news
        told.update(news)
    assert all(call.has_room for call in reader.calls)
    server.reply_batch([response(call, True) for call in reader.calls])
    reader.close()


class Directory:
    """Every model is there."""

    def find(self, name: str, version: int) -> Any:
        raise AssertionError("nothing is looked up")


class Submitter:
    def __init__(self) -> None:
        self.requests: SimpleQueue[InferRequest] = SimpleQueue()

    def submit(self, request: InferRequest) -> None:
        self.requests.put(request)


@pytest.fixture
def submitted(server: WireServer) -> Iterator[SimpleQueue[InferRequest]]:
    submitter, deaths = Submitter(), SimpleQueue[Any]()
    ingress = Ingress(server, submitter, Directory(), lambda name, error: deaths.put((name, error)), SilentLog())
    ingress.start()
    yield submitter.requests
    server.shutdown(0.0)
    ingress.stop()
    ingress.join(PATIENCE_S)
    assert deaths.empty()


@pytest.mark.parametrize("leaves", [False, True])
def test_the_maker_of_responses_is_woken(
    server: WireServer, submitted: SimpleQueue[InferRequest], leaves: bool
) -> None:
    reader = SlowReader(server, lambda: submitted.get(timeout=PATIENCE_S), "d")
    (made,) = reader.calls
    assert made.takes_stream
    flow, outputs = made.flow, [Tensor.from_numpy("Y", np.zeros(5000, np.uint8))]
    assert flow is not None
    sent = 0
    while flow.has_room():
        made.channel.send([CoreReply(made, outputs, final=False)])
        sent += 1
    assert sent >= ROOM_MESSAGES
    woken = threading.Event()
    flow.on_room(woken.set)
    assert not woken.is_set()
    if leaves:
        reader.close()
    else:
        reader.open_window(1 << 30)
    assert woken.wait(PATIENCE_S)
    if leaves:
        cancelled = threading.Event()
        made.on_cancel(cancelled.set)
        assert cancelled.wait(PATIENCE_S)
    assert flow.has_room()
    made.channel.send([CoreReply(made, has_response=False)])
    reader.close()


def test_a_plain_request_has_no_flow(server: WireServer, submitted: SimpleQueue[InferRequest]) -> None:
    with socket.create_connection(("127.0.0.1", server.ports["http"] or 0), PATIENCE_S) as connection:
        connection.sendall(request(b'{"inputs":[{"name":"X","datatype":"FP32","shape":[1],"data":[1]}]}'))
        made = submitted.get(timeout=PATIENCE_S)
        assert (made.takes_stream, made.flow) == (False, None)
        made.channel.send([CoreReply(made)])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_flag_of_the_wrong_type_is_an_error_in_the_stream(
    server: WireServer, submitted: SimpleQueue[InferRequest]
) -> None:
    wrong = asked("d", "w")
    wrong.parameters["triton_enable_empty_final_response"].int64_param = 1
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}") as channel:
        (answer,) = stub(channel).ModelStreamInfer(iter([wrong]))
    said = "invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param"
    assert said in answer.error_message
    assert (answer.infer_response.id, answer.infer_response.model_name) == ("w", "")


def control_call(server: WireServer, connection: socket.socket) -> HttpCall:
    connection.sendall(b"GET /v2/events HTTP/1.1\r\nHost: h\r\n\r\n")
    while True:
        for item in server.take_control(1, PATIENCE_S):
            if isinstance(item, HttpCall):
                item.start(200, [(b"content-type", b"text/event-stream")])
                return item


def test_a_body_that_is_not_read(server: WireServer) -> None:
    address = ("127.0.0.1", server.ports["http"] or 0)
    with socket.create_connection(address, PATIENCE_S) as slow, socket.create_connection(address, PATIENCE_S) as other:
        call, fine = control_call(server, slow), control_call(server, other)
        assert call.key != fine.key
        sent = 0
        while call.has_room:
            assert call.write(bytes(60_000), True)
            sent += 60_000
        assert sent < 64 << 20, "what waits is bounded"
        assert fine.has_room
        received = 0
        while received < sent:
            received += len(slow.recv(1 << 20))
        assert server.take_control(0, PATIENCE_S) == [call.key]
        assert call.has_room
        slow.close()
        assert server.take_control(0, PATIENCE_S) == [call.key]
        assert (call.is_disconnected, call.has_room, call.write(b"x", True)) == (True, True, False)
        fine.write(b"", False)


def test_a_body_over_http2_that_is_not_read_is_cut() -> None:
    """Its connection goes on, so only the piece that does not move tells."""
    local = {"http_address": "127.0.0.1", "http_port": 0}
    server = WireServer(WireOptions(**local, write_timeout_ms=200))  # type: ignore[arg-type]
    server.start()
    get = header_block((":method", "GET"), (":scheme", "http"), (":path", "/v2/events"), (":authority", "h"))
    with socket.create_connection(("127.0.0.1", server.ports["http"] or 0), PATIENCE_S) as connection:
        connection.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS | END_STREAM, 1, get))
        (call,) = server.take_control(1, PATIENCE_S)
        assert isinstance(call, HttpCall)
        assert call.http_version == "2"
        call.start(200, [])
        while call.has_room:
            call.write(bytes(5000), True)
        assert server.take_control(0, PATIENCE_S) == [call.key]
        assert call.is_disconnected
    server.shutdown(0.0)


def test_a_taker_of_control_calls_is_woken(server: WireServer) -> None:
    server.wake_control()
    assert server.take_control(0, PATIENCE_S) == []
    with socket.create_connection(("127.0.0.1", server.ports["http"] or 0), PATIENCE_S) as connection:
        connection.sendall(b"GET /v2/events HTTP/1.1\r\nHost: h\r\n\r\n")
        assert server.take_control(0, 0.0) == [], "no place for a call"
        (call,) = server.take_control(1, PATIENCE_S)
        assert isinstance(call, HttpCall)


def test_codes_of_a_stream_that_ends_at_an_error(server: WireServer) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}") as channel:
        asking = stub(channel).ModelStreamInfer(iter([asked("d", "e")]), metadata=[("triton_grpc_error", "true")])
        call = take_call(server)
        server.reply_batch([response(call)] * 3)
        server.fail_batch([(call, Code.UNAVAILABLE, "boom", True, True)])
        assert [next(asking).infer_response.id for _ in range(3)] == ["e"] * 3
        with pytest.raises(grpc.RpcError) as raised:
            next(asking)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
