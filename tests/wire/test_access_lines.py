"""Lines of the access log: one for each request of every kind, with nothing in them that a client could forge."""

import json
import re

import grpc
import pytest

from tests.wire.served import FAILS, PATIENCE_S, Served, json_body, message, read_all, read_answer, request, stub


def lines(served):
    """All of them, once the wire has ended."""
    served.close()
    text = b""
    while True:
        more, dropped = served.wire.take_access(0.0)
        assert not dropped
        if not more:
            return text.decode().splitlines()
        text += more


def entries(served):
    return [json.loads(line) for line in lines(served)]


@pytest.fixture
def served():
    with Served(access_log="json") as made:
        yield made


def test_an_inference_over_http(served):
    body = json.dumps({**json.loads(json_body([1.5])), "id": "r1"}).encode()
    with served.connect() as connection:
        connection.sendall(request(body))
        answer = read_answer(connection)
        host, port = connection.getsockname()
    (entry,) = entries(served)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", entry.pop("time"))
    assert entry.pop("duration_us") > 0
    assert entry == {
        "client": f"{host}:{port}",
        "protocol": "http",
        "method": "POST",
        "path": "/v2/models/m/infer",
        "status": 200,
        "bytes_in": len(body),
        "bytes_out": len(answer.partition(b"\r\n\r\n")[2]),
        "model": "m",
        "request_id": "r1",
    }


def test_each_request_of_a_connection(served):
    with served.connect() as connection:
        for path in ("/v2/models/m/infer", "/v2/models/m/ready", "/v2/models/m/versions/x/ready?token=secret"):
            verb = b"POST" if path.endswith("infer") else b"GET"
            connection.sendall(
                request(json_body([FAILS]) if verb == b"POST" else b"", path=path).replace(b"POST", verb)
            )
            read_answer(connection)
    found = entries(served)
    assert [(entry["path"], entry["status"], entry["method"]) for entry in found] == [
        ("/v2/models/m/infer", 500, "POST"),
        ("/v2/models/m/ready", 200, "GET"),
        ("/v2/models/m/versions/x/ready", 404, "GET"),
    ]
    assert [entry.get("model") for entry in found] == ["m", "m", "m"]


def test_calls_over_grpc(served):
    with served.channel() as channel:
        asked = message([2.5])
        asked.id = "g1"
        stub(channel).ModelInfer(asked, timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError):
            stub(channel).ModelInfer(message([FAILS]), timeout=PATIENCE_S)
        assert (
            len(list(stub(channel).ModelStreamInfer(iter([message([1.0]), message([2.0])]), timeout=PATIENCE_S))) == 2
        )
    found = entries(served)
    assert [(entry["path"].rpartition("/")[2], entry["status"], entry["protocol"]) for entry in found] == [
        ("ModelInfer", 0, "grpc"),
        ("ModelInfer", 13, "grpc"),
        ("ModelStreamInfer", 0, "grpc"),
    ]
    first, failed, stream = found
    assert (first["model"], first["request_id"]) == ("m", "g1")
    assert first["bytes_in"] == 5 + asked.ByteSize()
    assert first["bytes_out"] > 5
    assert failed["bytes_out"] == 0
    assert stream["bytes_in"] > first["bytes_in"]


def test_a_client_that_leaves_before_its_answer(served):
    served.wire.publish(True, True, {("m", ""): (True, 7, False)})
    assert served.wire.take_route(7, 1, 0.0) == []
    with served.connect() as connection:
        connection.sendall(request(json_body([1.5])))
        (call,) = served.wire.take_route(7, 1, PATIENCE_S)
    while not call.is_cancelled:
        pass
    (entry,) = entries(served)
    assert (entry["status"], entry["bytes_out"]) == (499, 0)


def test_nothing_ends_a_line_or_looks_like_another_field(served):
    evil = 'x"}\n{"status":200}\r\x1b[31m\u2028'
    body = json.dumps({**json.loads(json_body([1.5])), "id": evil}).encode()
    with served.connect() as connection:
        connection.sendall(request(body))
        read_answer(connection)
        connection.sendall(request(json_body([1.5]), path="/v2/models/%0a%22x/infer"))
        read_answer(connection)
    found = entries(served)
    assert [entry.get("request_id") for entry in found] == [evil, None]
    assert found[1]["model"] == '\n"x'


def test_in_the_common_format():
    with Served(access_log="common") as served:
        body = json.dumps({**json.loads(json_body([1.5])), "id": 'a" 200 "\n'}).encode()
        with served.connect() as connection:
            connection.sendall(request(body))
            answer = read_answer(connection)
        (line,) = lines(served)
    sent = len(answer.partition(b"\r\n\r\n")[2])
    begin = r"127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "
    rest = rf'"POST /v2/models/m/infer HTTP/1\.1" 200 {sent} http {len(body)} \d+ "m" "a\\x22 200 \\x22\\x0a"'
    assert re.fullmatch(begin + rest, line), line


def test_requests_that_are_none_have_no_line(served):
    with served.connect() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        read_all(connection)
    assert lines(served) == []


def test_without_a_log_nothing_is_kept():
    with Served() as served:
        with served.connect() as connection:
            connection.sendall(request(json_body([1.5])))
            read_answer(connection)
        assert lines(served) == []


def test_a_format_that_is_none():
    with pytest.raises(ValueError, match="'xml' is no format"):
        Served(access_log="xml")
