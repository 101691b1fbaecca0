"""What other HTTP clients than the usual one do: curl's habits, old versions, proxies' headers, scrapers."""

import json
import socket

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from charonia.api import Server
from tests.every_door.raw import RawHttp, exchange, http_request, one_input
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S

PATH = "/v2/models/scores/infer"
BODY = json.dumps(one_input([0.5, 1.5], shape=[1, 2])).encode()


@pytest.fixture
def raw(server):
    opened = RawHttp(server)
    yield opened
    opened.close()


def test_a_client_that_waits_to_be_asked_for_its_body(raw):
    """As curl does with bodies of more than a megabyte."""
    with socket.create_connection(("127.0.0.1", raw.port), timeout=PATIENCE_S) as connection:
        connection.sendall(http_request(PATH, b"", [f"Content-Length: {len(BODY)}", "Expect: 100-continue"]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_http_1_0(raw):
    request = http_request(PATH, BODY).replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"Connection: close\r\n", b"")
    status, _, body = exchange(raw.port, request)
    assert status == 200
    assert json.loads(body)["outputs"][0]["data"] == [0.5, 1.5]


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("br, gzip", "gzip"),
        ("deflate;q=0.5, gzip;q=0.9", "gzip"),
        ("gzip;q=0", None),
        ("identity", None),
        ("*", None),
        ("nonsense;;q=", None),
        ("", None),
    ],
)
def test_answers_are_coded_as_the_client_accepts(raw, accepted, coding):
    answer = raw.infer("scores", BODY, headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == coding
    assert answer.json()["outputs"][0]["data"] == [0.5, 1.5]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "GET"])
def test_other_methods_name_the_right_one(raw, method):
    answer = raw.client.request(method, PATH)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


def test_head_of_health(raw):
    answer = raw.client.head("/v2/health/ready")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "nonsense", None])
def test_the_content_type_does_not_matter(raw, content_type):
    headers = {} if content_type is None else {"Content-Type": content_type}
    assert raw.infer("scores", BODY, headers=headers).status_code == 200


def test_half_floats_as_json(tmp_path):
    for datatype in ("FP16", "BF16"):
        onnx_models.save(onnx_models.identity(datatype), tmp_path, datatype)
    with Server(tmp_path, http_port=0) as server:
        http = RawHttp(server)
        for datatype in ("FP16", "BF16"):
            answer = http.infer(datatype, one_input([0.5, -2], datatype=datatype, shape=[1, 2]))
            assert answer.json()["outputs"][0]["data"] == [0.5, -2]
            beyond = http.infer(datatype, one_input([1e39], datatype=datatype, shape=[1, 1]))
            assert beyond.status_code == 400
        http.close()


def test_metrics_of_models_with_odd_names_can_be_scraped(tmp_path):
    names = {'we"ird', "back\\slash", "größe 1+1 {}", "plain"}
    for name in names:
        onnx_models.save(onnx_models.add_sub(), tmp_path, name)
    with Server(tmp_path, metrics_port=0) as server:
        url = f"http://127.0.0.1:{server.ports['metrics']}/metrics"
        text = httpx.get(url, verify=False, timeout=PATIENCE_S).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {sample.labels["model"] for sample in samples if "model" in sample.labels} == names
