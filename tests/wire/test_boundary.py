"""The extension as Python uses it: takes, replies, lent memory, cancellations, control calls. Local sockets."""

import http.client
import json
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from charonia import _wire
from charonia._wire import AnswerShelf, HttpCall, InferCall, WireOptions, WireServer

PATIENCE_S = 20.0
"""Nothing waits this long when it works."""

INFER = "/v2/models/m/infer"


@pytest.fixture
def server() -> Iterator[WireServer]:
    made = WireServer(WireOptions(http_address="127.0.0.1", http_port=0, grpc_port=None, metrics_port=None))
    made.start()
    made.publish(True, True, {("m", ""): (True, 7, False)})
    yield made
    made.shutdown(0.0)


def connect(server: WireServer) -> http.client.HTTPConnection:
    port = server.ports["http"]
    assert port is not None
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)


def body(values: list[float], **more: Any) -> bytes:
    tensor = {"name": "X", "datatype": "FP32", "shape": [1, len(values)], "data": values}
    return json.dumps({"inputs": [tensor], **more}).encode()


def ask(server: WireServer, data: bytes, **headers: str) -> http.client.HTTPConnection:
    connection = connect(server)
    connection.request("POST", INFER, data, {name.replace("_", "-"): value for name, value in headers.items()})
    return connection


def answer(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def take_call(server: WireServer) -> InferCall:
    (call,) = server.take(1, PATIENCE_S)
    assert isinstance(call, InferCall)
    return call


def test_a_call_says_what_the_request_says(server: WireServer) -> None:
    wanted = [{"name": "Y", "parameters": {"classification": 3, "extra": "e"}}]
    data = body([1.0, 2.0], id="q", parameters={"a": 1, "b": True, "c": 2.5, "d": "s"}, outputs=wanted)
    connection = ask(server, data, X_Header="value")
    before = _wire.monotonic_ns()
    call = take_call(server)
    key, name, version, request_id, inputs, outputs, classes, parameters, raw, *numbers = call.unpack()
    arrival_ns, deadline_ns, signature, batch_dim, streams, has_tensor_parameters = numbers
    assert (key, name, version, request_id) == (call.key, "m", "", "q")
    assert (call.protocol, call.model_name, call.defect, call.is_cancelled) == ("http", "m", None, False)
    assert parameters == {"a": 1, "b": True, "c": 2.5, "d": "s"}
    assert type(parameters["b"]) is bool
    assert (outputs, classes) == (("Y",), {"Y": 3})
    assert (has_tensor_parameters, call.output_parameters) == (True, {"Y": {"extra": "e"}})
    assert (raw, batch_dim, deadline_ns, streams) == (False, 1, 0, False)
    assert signature != 0
    assert 0 < arrival_ns <= _wire.monotonic_ns()
    assert before - arrival_ns < PATIENCE_S * 1e9
    assert ("x-header", "value") in call.headers
    ((input_name, datatype, shape, tensor),) = inputs
    assert (input_name, datatype, shape) == ("X", "FP32", (1, 2))
    assert (tensor.nbytes, tensor.device, tensor.owned, tensor.parameters) == (8, "cpu", True, None)
    assert tensor.host() is tensor
    view = memoryview(tensor)
    assert (view.readonly, view.format, view.ndim) == (True, "B", 1)
    assert np.frombuffer(memoryview(tensor), np.float32).tolist() == [1.0, 2.0]
    server.fail_batch([(call, 5, "no model 'm'")])
    assert answer(connection) == (404, {"error": "no model 'm'"})


def test_equal_requests_have_equal_signatures(server: WireServer) -> None:
    bodies = [body([1.0]), body([2.0]), body([1.0, 2.0]), body([1.0], outputs=[{"name": "Y"}])]
    connections = [ask(server, data) for data in bodies]
    signatures: dict[Any, set[int]] = {}
    for _ in connections:
        call = take_call(server)
        _, _, _, _, inputs, outputs, _, _, _, _, _, signature, *_ = call.unpack()
        signatures.setdefault((inputs[0][2], outputs), set()).add(signature)
        server.fail_batch([(call, 13, "done")])
    assert [len(found) for found in signatures.values()] == [1, 1, 1]
    assert len(set.union(*signatures.values())) == 3


def test_replies_are_encoded_as_the_request_asks(server: WireServer) -> None:
    connection = ask(server, body([1.0], id="7"))
    call = take_call(server)
    array = np.array([[1.5, 2.5]], np.float32)
    outputs = [("Y", "FP32", array.shape, array, True), ("S", "BYTES", (1,), struct.pack("<I", 2) + b"hi", False)]
    server.reply_batch([(call, "m", "3", outputs, {"k": True}, True)])
    status, reply = answer(connection)
    assert status == 200
    assert reply == {
        "id": "7",
        "model_name": "m",
        "model_version": "3",
        "parameters": {"k": True},
        "outputs": [
            {"name": "Y", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.5]},
            {"name": "S", "datatype": "BYTES", "shape": [1], "data": ["hi"]},
        ],
    }


class Owned(np.ndarray[Any, Any]):
    """An array that tells when it is gone."""


def owned(values: int) -> tuple[Owned, "weakref.ref[Owned]"]:
    array = np.zeros(values, np.float32).view(Owned)
    return array, weakref.ref(array)


def until(condition: Callable[[], bool], server: WireServer) -> None:
    """Take until it is so. Each take returns when lent memory comes back, or soon after."""
    give_up = _wire.monotonic_ns() + int(PATIENCE_S * 1e9)
    while not condition():
        assert _wire.monotonic_ns() < give_up
        assert server.take(8, 0.01) == []


def test_large_owned_outputs_are_lent_and_given_back_by_take(server: WireServer) -> None:
    connection = ask(server, body([1.0], parameters={"binary_data_output": True}))
    call = take_call(server)
    array, alive = owned(1_000_000)
    server.reply_batch([(call, "m", "1", [("Y", "FP32", array.shape, array, True)], None, True)])
    del array
    response = connection.getresponse()
    assert len(response.read()) > 4_000_000
    assert alive() is not None, "only a thread that takes may drop it"
    until(lambda: alive() is None, server)
    assert server.counters().pinned_output_bytes == 0


def shelved(server: WireServer) -> AnswerShelf:
    """A shelf that is published with the model."""
    shelf = AnswerShelf()
    server.publish(True, True, {("m", ""): (True, 7, False)}, shelves={("m", ""): shelf, ("other", ""): AnswerShelf()})
    return shelf


def test_a_kept_answer_is_given_without_a_take_until_it_is_gone(server: WireServer) -> None:
    shelf = shelved(server)
    connection = ask(server, body([1.0]))
    call = take_call(server)
    reply: _wire.Reply = (call, "m", "3", [("Y", "FP32", (1,), np.float32([5.0]), True)], {"p": 1}, True)
    server.reply_batch([reply])
    first = answer(connection)
    kept = server.keep(shelf, reply)
    assert kept is not None
    assert not kept.take_used()
    assert server.keep(shelf, reply) is None, "it lies there already"
    assert answer(ask(server, body([1.0]))) == first
    assert answer(ask(server, body([1.0], id="other"))) == (first[0], {**first[1], "id": "other"})
    assert kept.take_used()
    assert sum(count for count, _, _ in shelf.take_given()) == 2
    assert shelf.take_given() == []
    server.close_shelves(True)
    waiting = ask(server, body([1.0]))
    take_call(server)
    server.close_shelves(False)
    assert answer(ask(server, body([1.0]))) == first
    del kept
    waiting = ask(server, body([1.0]))
    take_call(server)
    waiting.close()


def test_what_is_no_plain_answer_is_not_kept(server: WireServer) -> None:
    shelf = shelved(server)
    output: _wire.Output = ("Y", "FP32", (1,), np.float32([5.0]), True)
    large: _wire.Output = ("Y", "FP32", (100_000,), np.zeros(100_000, np.float32), True)
    asked = (body([1.0], parameters={"p": 1}), body([1.0]), body([1.0]), body([0.0] * 100_000))
    connections = []  # a call whose client goes is news
    for data, outputs in zip(asked, ([output], None, [large], [output]), strict=True):
        connections.append(ask(server, data))
        call = take_call(server)
        assert server.keep(shelf, (call, "m", "1", outputs, None, True)) is None
    with pytest.raises(TypeError):
        server.keep(shelf, (call, "m"))  # type: ignore[arg-type]


def test_kept_outputs_are_lent_until_they_are_gone(server: WireServer) -> None:
    shelf = shelved(server)
    connection = ask(server, body([1.0], parameters={"binary_data_output": True}))
    call = take_call(server)
    array, alive = owned(10_000)
    reply: _wire.Reply = (call, "m", "1", [("Y", "FP32", array.shape, array, True)], None, True)
    kept = server.keep(shelf, reply)
    server.reply_batch([reply])
    assert len(connection.getresponse().read()) > 40_000
    del array, call, reply
    until(lambda: server.counters().pinned_output_bytes == 40_000, server)
    assert kept is not None
    assert alive() is not None
    del kept
    until(lambda: alive() is None, server)
    assert server.counters().pinned_output_bytes == 0


def test_lent_outputs_come_back_when_the_client_has_gone(server: WireServer) -> None:
    connection = ask(server, body([1.0], parameters={"binary_data_output": True}))
    call = take_call(server)
    connection.close()
    assert server.take(8, PATIENCE_S) == [call.key]
    array, alive = owned(1_000_000)
    server.reply_batch([(call, "m", "1", [("Y", "FP32", array.shape, array, True)], None, True)])
    del array
    until(lambda: alive() is None, server)


def test_outputs_that_are_not_owned_may_change_after_the_reply(server: WireServer) -> None:
    for size in (16, 1_000_000):
        connection = ask(server, body([1.0], parameters={"binary_data_output": True}))
        call = take_call(server)
        array = np.ones(size, np.uint8)
        server.reply_batch([(call, "m", "1", [("Y", "UINT8", array.shape, array, False)], None, True)])
        array[:] = 0
        assert connection.getresponse().read().endswith(b"\x01" * size)


def test_an_input_may_be_sent_back_as_it_is(server: WireServer) -> None:
    connection = ask(server, body([4.0, 5.0]))
    call = take_call(server)
    ((_, datatype, shape, tensor),) = call.unpack()[4]
    server.reply_batch([(call, "m", "1", [("Y", datatype, shape, tensor, True)], None, True)])
    del call, tensor
    assert answer(connection)[1]["outputs"][0]["data"] == [4.0, 5.0]


def test_a_closed_connection_names_its_call(server: WireServer) -> None:
    connection = ask(server, body([1.0]))
    call = take_call(server)
    connection.close()
    assert server.take(8, PATIENCE_S) == [call.key]
    assert call.is_cancelled


def test_second_replies_are_counted_and_dropped_calls_answered(server: WireServer) -> None:
    connection = ask(server, body([1.0]))
    call = take_call(server)
    server.fail_batch([(call, 14, "busy"), (call, 13, "again")])
    server.reply_batch([(call, "m", "1", [], None, True)])
    assert answer(connection) == (503, {"error": "busy"})
    connection = ask(server, body([1.0]))
    call = take_call(server)
    del call
    assert answer(connection)[0] == 500
    counters = server.counters()
    assert (counters.late_replies, counters.dropped_calls, counters.infer_calls) == (2, 1, 2)
    assert (counters.unsettled_calls, counters.waiting_calls, counters.panics) == (0, 0, 0)


@pytest.mark.parametrize(
    "reply",
    [
        ("not a call", "m", "1", [], None, True),
        ("CALL", "m", "1", [("Y", "FP33", (1,), b"1234", True)], None, True),
        ("CALL", "m", "1", [("Y", "FP32", (1,), 5, True)], None, True),
        ("CALL", "m", "1", [("Y", "FP32", ("a",), b"1234", True)], None, True),
        ("CALL", "m", "1", [], {"k": object()}, True),
        ("CALL", "m"),
    ],
)
def test_a_malformed_reply_raises_and_settles_nothing(server: WireServer, reply: tuple[Any, ...]) -> None:
    connection = ask(server, body([1.0]))
    call = take_call(server)
    wrong = tuple(call if part == "CALL" else part for part in reply)
    with pytest.raises((TypeError, ValueError)):
        server.reply_batch([wrong])  # type: ignore[list-item]
    server.fail_batch([(call, 13, "gave up")])
    assert answer(connection) == (500, {"error": "gave up"})


def test_an_output_whose_bytes_do_not_fit_its_shape_is_an_error(server: WireServer) -> None:
    connection = ask(server, body([1.0]))
    call = take_call(server)
    server.reply_batch([(call, "m", "1", [("Y", "FP32", (3,), b"1234", True)], None, True)])
    status, reply = answer(connection)
    assert status == 500
    assert "Y" in reply["error"]


def test_a_route_can_be_waited_at_and_woken(server: WireServer) -> None:
    taken: list[InferCall] = []

    def wait() -> None:
        while not taken:
            taken.extend(server.take_route(7, 4, PATIENCE_S))
            for call in taken:
                server.fail_batch([(call, 5, "from the route")])

    server.wake_route(7)
    assert server.take_route(7, 4, PATIENCE_S) == []
    waiter = threading.Thread(target=wait)
    waiter.start()
    statuses = []
    while waiter.is_alive():
        connection = ask(server, body([1.0]))
        for call in server.take(4, 0.05):
            assert isinstance(call, InferCall)
            server.fail_batch([(call, 14, "from take")])
        statuses.append(answer(connection)[0])
    assert statuses[-1] == 404
    waiter.join(PATIENCE_S)


def test_takers_are_woken_by_shutdown(server: WireServer) -> None:
    results: list[list[Any]] = []
    takers: list[Callable[[], list[Any]]] = [
        lambda: server.take(1, PATIENCE_S),
        lambda: server.take_route(7, 1, PATIENCE_S),
        lambda: server.take_control(1, PATIENCE_S),
    ]
    threads = [threading.Thread(target=lambda take=take: results.append(take())) for take in takers]
    for thread in threads:
        thread.start()
    assert server.shutdown(1.0)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert results == [[], [], []]


def take_control(server: WireServer) -> HttpCall:
    (call,) = server.take_control(1, PATIENCE_S)
    assert isinstance(call, HttpCall)
    return call


def test_other_paths_are_python_s_own(server: WireServer) -> None:
    connection = connect(server)
    connection.request("POST", "/v2/x%20y?q=1", b"data", {"X-Y": "z"})
    call = take_control(server)
    assert (call.listener, call.method, call.path, call.query, call.http_version) == (
        "http",
        "POST",
        "/v2/x%20y",
        "q=1",
        "1.1",
    )
    assert (b"x-y", b"z") in call.headers
    assert call.body == b"data"
    assert call.client is not None
    assert call.client[0] == "127.0.0.1"
    call.start(418, [(b"content-type", b"text/plain")])
    with pytest.raises(RuntimeError):
        call.start(200, [])
    assert call.write(b"a", True)
    assert call.write(b"b", False)
    with pytest.raises(RuntimeError):
        call.write(b"c", False)
    response = connection.getresponse()
    assert (response.status, response.read(), response.headers["Content-Type"]) == (418, b"ab", "text/plain")
    assert response.headers["Server"] == "charonia"


def test_a_control_call_with_a_length_is_not_chunked_and_keeps_the_connection(server: WireServer) -> None:
    connection = connect(server)
    for _ in range(2):
        connection.request("GET", "/v2")
        call = take_control(server)
        call.start(200, [(b"content-length", b"2")])
        assert call.write(b"{}", False)
        response = connection.getresponse()
        assert (response.headers["Content-Length"], response.read()) == ("2", b"{}")


@pytest.mark.parametrize(("listener", "service"), [("http", "HTTP"), ("grpc", "GRPC"), ("metrics", "Metrics")])
def test_the_port_in_use_is_named(server: WireServer, listener: str, service: str) -> None:
    options = WireOptions(**{f"{listener}_address": "127.0.0.1", f"{listener}_port": server.ports["http"]})
    said = f"failed to start {service} service: Unavailable - Socket '127.0.0.1:{server.ports['http']}' already in use"
    with pytest.raises(OSError, match=said):
        WireServer(options).start()


def test_exiting_refuses_new_connections(server: WireServer) -> None:
    port = server.ports["http"]
    assert port is not None
    server.set_exiting()
    give_up = _wire.monotonic_ns() + int(PATIENCE_S * 1e9)
    while _accepts(port):
        assert _wire.monotonic_ns() < give_up
    assert server.shutdown(PATIENCE_S)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except ConnectionError:
        return False
    return True


def test_codes_have_one_mapping_to_http() -> None:
    codes = (0, 1, 2, 3, 4, 5, 6, 8, 12, 13, 14)
    assert [_wire.http_status(code) for code in codes] == [200, 400, 400, 400, 504, 404, 400, 429, 501, 500, 503]
