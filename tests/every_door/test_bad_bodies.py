"""HTTP bodies and headers that lie about themselves. After each request the server serves on."""

import gzip
import json
import re
import socket
import zlib

import numpy as np
import pytest

from tests.every_door.raw import HEADER_LENGTH, RawHttp, binary_input, exchange, http_request, one_input
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config

LIMIT = 1_000_000
OPTIONS = {"http_max_input_size": LIMIT}
PATH = "/v2/models/FP32/infer"


def lay_out(repository):
    for datatype in ("FP32", "BYTES"):
        onnx_models.save(onnx_models.identity(datatype, ["length"]), repository, datatype)
        write_config(repository, datatype, "max_batch_size: 0")
    onnx_models.save(onnx_models.add_sub(dims=[2]), repository, "pair")
    write_config(repository, "pair", "max_batch_size: 0")


GOOD = json.dumps(one_input([1.5, -2])).encode()


@pytest.fixture
def http(server):
    """After the test the server must be live and answer rightly, on the same connection and on a new one."""
    opened = RawHttp(server)
    yield opened
    assert opened.client.get("/v2/health/live").status_code == 200
    for each in (opened, RawHttp(server)):
        assert right(each.infer("FP32", GOOD))
        each.close()


def right(answer):
    return answer.status_code == 200 and answer.json()["outputs"][0]["data"] == [1.5, -2]


def refusal(answer, status=400):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize("lie", ["abc", "-1", "1.5", "0x10", "1e3", "", "99999999999999999999", str(2**64), str(2**63)])
def test_a_header_length_that_is_no_length(http, lie):
    assert "Inference-Header-Content-Length" in refusal(http.post("FP32", GOOD, {HEADER_LENGTH: lie}))


def test_a_header_length_beyond_the_body(http):
    said = refusal(http.post("FP32", GOOD, {HEADER_LENGTH: str(len(GOOD) + 1)}))
    assert str(len(GOOD) + 1) in said
    assert f"only {len(GOOD)}" in said


def test_a_header_length_that_cuts_the_json(http):
    refusal(http.post("FP32", GOOD, {HEADER_LENGTH: str(len(GOOD) - 1)}))
    refusal(http.post("FP32", GOOD, {HEADER_LENGTH: "1"}))


def test_a_header_length_of_0_makes_the_body_the_tensor(http):
    values = np.array([1, 2, 3], "<f4")
    answer = http.post("FP32", values.tobytes(), {HEADER_LENGTH: "0"})
    assert answer.status_code == 200, answer.text
    refusal(http.post("FP32", GOOD + b"..."[: 1 + len(GOOD) % 4], {HEADER_LENGTH: "0"}))  # no multiple of 4 bytes
    refusal(http.post("pair", values.tobytes(), {HEADER_LENGTH: "0"}))  # a model of two inputs can't take it


@pytest.mark.parametrize(
    ("said", "sent"), [(8, 4), (4, 8), (0, 4), (4, 0), (2**63, 4), (2**64 - 4, 4), (2**64, 4), (-4, 4), (2.5, 4)]
)
def test_binary_sizes_that_do_not_add_up(http, said, sent):
    message = refusal(http.infer("FP32", binary_input(said), tail=b"\0" * sent))
    assert "'FP32'" in message


@pytest.mark.parametrize("size", ["4", True, None, [4]])
def test_binary_sizes_that_are_no_numbers(http, size):
    refusal(http.infer("FP32", binary_input(size), tail=b"\0" * 4))


def test_binary_sizes_of_two_tensors(http):
    first, second = (binary_input(8, name=name, shape=(2,))["inputs"][0] for name in ("INPUT0", "INPUT1"))
    good = http.infer("pair", {"inputs": [first, second]}, tail=np.array([1, 2, 3, 4], "<f4").tobytes())
    assert good.status_code == 200, good.text
    shifted = second | {"parameters": {"binary_data_size": 4}}
    longer = first | {"parameters": {"binary_data_size": 12}}
    said = refusal(http.infer("pair", {"inputs": [longer, shifted]}, tail=b"\0" * 16))
    assert "input byte size mismatch for input 'INPUT0' for model 'pair'. Expected 8, got 12" in said
    overflowing = [first | {"parameters": {"binary_data_size": 2**63}} for _ in range(2)]
    refusal(http.infer("pair", {"inputs": overflowing}, tail=b"\0" * 16))


def test_both_data_and_binary_data(http):
    both = {"inputs": [binary_input(4)["inputs"][0] | {"data": [1]}]}
    refusal(http.infer("FP32", both, tail=b"\0" * 4))


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\x01",
        b"\x05\0\0\0abc",
        b"\xff\xff\xff\xffabc",
        b"\x01\0\0\0a",  # one element where the shape has two
        b"\x01\0\0\0a\x01\0\0\0b\x01\0\0\0c",
        b"\x01\0\0\0a\x01\0\0\0b\0",
    ],
)
def test_lengths_of_strings_that_do_not_add_up(http, tail):
    answer = http.infer("BYTES", binary_input(len(tail), datatype="BYTES", shape=(2,)), tail=tail or b"")
    assert "'INPUT0'" in refusal(answer)


def test_a_body_above_the_limit(http):
    said = refusal(http.post("FP32", b" " * (LIMIT + 1)))
    assert f"request JSON size of {LIMIT + 1} bytes exceeds the maximum allowed input size of {LIMIT} bytes. " in said
    assert "Use --http-max-input-size" in said
    assert right(http.post("FP32", GOOD + b" " * (LIMIT - len(GOOD))))


def test_tensors_up_to_the_limit_may_follow_json_up_to_the_limit(http):
    document = json.dumps(binary_input(LIMIT, shape=(LIMIT // 4,))).encode()
    for text in (document, document + b" " * (LIMIT - len(document))):
        assert http.infer("FP32", text, tail=bytes(LIMIT)).status_code == 200
    said = refusal(http.infer("FP32", document, tail=bytes(LIMIT + 1)))
    assert f"exceeds the maximum allowed input size of {LIMIT} bytes" in said


def test_a_raw_body_above_the_limit(http):
    assert http.post("FP32", bytes(LIMIT), {HEADER_LENGTH: "0"}).status_code == 200
    said = refusal(http.post("FP32", bytes(LIMIT + 4), {HEADER_LENGTH: "0"}))
    assert f"Raw input has a byte_size ({LIMIT + 4} bytes) that exceeds the maximum allowed value of {LIMIT}" in said


def test_a_chunked_body_above_the_limit(http):
    assert str(LIMIT) in refusal(http.post("FP32", (b" " * 10_000 for _ in range(LIMIT // 10_000 + 1))))
    assert right(http.post("FP32", (GOOD[at : at + 7] for at in range(0, len(GOOD), 7))))


def test_a_body_of_very_many_small_chunks(http):
    head, end = ["Transfer-Encoding: chunked"], b"0\r\n\r\n"
    status, head_of_answer, said = exchange(http.port, http_request(PATH, b"1\r\n \r\n" * 65_537 + end, head))
    assert status == 400
    assert "Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP chunks." in said
    assert "connection: close" in head_of_answer.lower()
    _, _, said = exchange(http.port, http_request(PATH, b"1\r\n \r\n" * 65_536 + end, head))
    assert "chunks" not in said


@pytest.mark.parametrize("first", ["Content-Length", "Transfer-Encoding"])
def test_a_body_of_two_lengths_ends_the_connection(http, first):
    """The chunks count, and nothing that follows is read: it may be part of the body to whoever passed it on."""
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    lengths = sorted([f"Content-Length: {len(chunked)}", "Transfer-Encoding: chunked"])
    lengths = lengths if first == "Content-Length" else lengths[::-1]
    request = http_request(PATH, chunked, lengths).replace(b"Connection: close\r\n", b"")
    status, head, said = exchange(http.port, request + http_request(PATH, GOOD))
    assert status == 200
    assert "connection: close" in head.lower()
    assert json.loads(said)["outputs"][0]["data"] == [1.5, -2]


def test_an_announced_length_above_the_limit_is_refused_before_it_is_sent(http):
    head = http_request(PATH, b"", ["Content-Length: 99999999999999", "Expect: 100-continue"])
    status, _, said = exchange(http.port, head)
    assert status == 400
    assert str(LIMIT) in said


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_compressed_bodies(http, pack):
    coding = {"Content-Encoding": "gzip" if pack is gzip.compress else "deflate"}
    packed = pack(GOOD)
    assert right(http.post("FP32", packed, coding))
    assert right(http.post("FP32", packed, coding | {HEADER_LENGTH: str(len(GOOD))}))  # counts inflated bytes
    refusal(http.post("FP32", packed, coding | {HEADER_LENGTH: str(len(GOOD) + 1)}))
    refusal(http.post("FP32", packed[:-5], coding))
    refusal(http.post("FP32", GOOD, coding))
    refusal(http.post("FP32", b"", coding))


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_body_that_inflates_beyond_the_limit(http, pack):
    coding = {"Content-Encoding": "gzip" if pack is gzip.compress else "deflate"}
    bomb = pack(b" " * 100_000_000)
    assert len(bomb) < LIMIT
    assert f"exceeds the maximum allowed value of {LIMIT} bytes" in refusal(http.post("FP32", bomb, coding))


def test_an_unknown_coding_is_named(http):
    answer = http.post("FP32", GOOD, {"Content-Encoding": "br"})
    assert "'br'" in refusal(answer, 501)
    assert answer.headers["accept-encoding"] == "gzip, deflate"
    twice = [("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")]
    refusal(http.client.post(PATH, content=gzip.compress(gzip.compress(GOOD)), headers=twice), 501)


def test_a_body_that_ends_too_early(http):
    with socket.create_connection(("127.0.0.1", http.port), timeout=PATIENCE_S) as connection:
        connection.sendall(http_request(PATH, GOOD[:-4], [f"Content-Length: {len(GOOD)}"]))
        connection.shutdown(socket.SHUT_WR)
        assert b" 200 " not in connection.recv(65536)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\n\r\n",
        b"\0" * 1000,
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",  # the first bytes of a TLS client
        b"POST /v2/models/FP32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: nonsense\r\n\r\n",
        b"POST /v2/models/FP32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"X-Many: a\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_http(http, request_bytes):
    with socket.create_connection(("127.0.0.1", http.port), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except OSError:  # the server hung up while we were sending
            return
    assert answer == b"" or b" 4" in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/FP32/infer", 405),
        ("PUT", "/v2/models/FP32/infer", 405),
        ("POST", "/v2/health/live", 405),
        ("GET", "/v2/repository/index", 405),
        ("DELETE", "/v2/models/FP32", 405),
        ("GET", "/", 404),
        ("GET", "/v3", 404),
        ("GET", "/v2/", 404),
        ("GET", "/v2//models/FP32", 404),
        ("POST", "/v2/models/FP32/infer/", 404),
        ("POST", "/v2/models/FP32/versions/one/infer", 404),
        ("POST", "/v2/models/FP32/versions/-1/infer", 404),
        ("POST", "/v2/models//infer", 404),
        ("GET", "/v2/models/..%2f..%2fetc%2fpasswd", 404),
        ("POST", "/v2/models/..%2F..%2Fetc%2Fpasswd/infer", 404),
        ("POST", "/v2/models/%ff/infer", 404),
        ("POST", "/v2/models/FP32/versions/99999999999999999999/infer", 400),
        ("POST", "/v2/models/FP32/versions/2/infer", 404),
    ],
)
def test_wrong_paths_and_methods(http, method, path, status):
    answer = http.client.request(method, path, content=GOOD if method == "POST" else None)
    assert answer.status_code == status, answer.text
    if status == 404:
        assert answer.json()["error"]


def test_requests_behind_one_another_are_answered_in_order(http):
    """Pipelined, with a refusal in the middle."""
    one = http_request(PATH, GOOD).replace(b"Connection: close\r\n", b"")
    bad = http_request(PATH, b"{").replace(b"Connection: close\r\n", b"")
    with socket.create_connection(("127.0.0.1", http.port), timeout=PATIENCE_S) as connection:
        connection.sendall(one + bad + http_request(PATH, GOOD))
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", answer)
    assert statuses == [b"200", b"400", b"200"]
