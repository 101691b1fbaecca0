"""APIs that need a secret: the real clients with and without it."""

import http.client
from contextlib import nullcontext, suppress

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from tests.models import onnx_models

INFER = {"infer-key": "open"}
ADMIN = {"admin-key": "sesame"}
GRPC_INFER = {"triton-grpc-protocol-infer-key": "open"}
GRPC_ADMIN = {"triton-grpc-protocol-admin-key": "sesame"}
SAYS_HTTP = "This API is restricted, expecting header '{}'"
SAYS_GRPC = "This protocol is restricted, expecting header 'triton-grpc-protocol-{}'"


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"an app"})


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("restricted")
    onnx_models.save(onnx_models.add_sub(), folder, "add_sub", 1)
    groups = ("inference,health,metadata:infer-key=open", "model-repository:admin-key=sesame")
    with Server(
        folder,
        http_port=0,
        grpc_port=0,
        http_restricted_api=groups,
        grpc_restricted_protocol=groups,
        mount={"/app": app},
    ) as server:
        yield server


@pytest.fixture
def rest(served):
    with httpclient.InferenceServerClient(f"127.0.0.1:{served.ports['http']}") as client:
        yield client


@pytest.fixture
def rpc(served):
    with grpcclient.InferenceServerClient(f"127.0.0.1:{served.ports['grpc']}") as client:
        yield client


def inputs(module):
    made = []
    for name in ("INPUT0", "INPUT1"):
        tensor = module.InferInput(name, [1, 16], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 16), np.float32))
        made.append(tensor)
    return made


def calls(client, module):
    """(who may, what) of calls of each kind."""
    return [
        ("infer-key", lambda headers: client.is_server_live(headers=headers)),
        ("infer-key", lambda headers: client.is_server_ready(headers=headers)),
        ("infer-key", lambda headers: client.is_model_ready("add_sub", headers=headers)),
        ("infer-key", lambda headers: client.get_server_metadata(headers=headers)),
        ("infer-key", lambda headers: client.get_model_metadata("add_sub", headers=headers)),
        ("infer-key", lambda headers: client.infer("add_sub", inputs(module), headers=headers)),
        ("admin-key", lambda headers: client.get_model_repository_index(headers=headers)),
        (None, lambda headers: client.get_inference_statistics(headers=headers)),
        (None, lambda headers: client.get_model_config("add_sub", headers=headers)),
    ]


def wrong_headers(right):
    name, value = next(iter(right.items()))
    return [None, {name: value[:-1]}, {name: value + "x"}, {name: value.upper()}, {f"x-{name}": value}]


def outcome(call, headers):
    """The health questions of the client give False for each status that is not 200."""
    try:
        return call(headers)
    except InferenceServerException as error:
        return str(error)


def test_http(rest):
    keys = {"infer-key": INFER, "admin-key": ADMIN}
    for who, call in calls(rest, httpclient):
        if who is None:
            call(None)
            continue
        call(keys[who])
        for headers in wrong_headers(keys[who]):
            assert outcome(call, headers) in (False, f"[403] {SAYS_HTTP.format(who)}")


def test_grpc(rpc):
    keys = {"infer-key": GRPC_INFER, "admin-key": GRPC_ADMIN}
    for who, call in calls(rpc, grpcclient):
        if who is None:
            call(None)
            continue
        call(keys[who])
        for headers in wrong_headers(keys[who]):
            with pytest.raises(InferenceServerException) as refused:
                call(headers)
            assert SAYS_GRPC.format(who) in str(refused.value)
            assert refused.value.status() == "StatusCode.UNAVAILABLE"


def test_a_stream_ends_with_the_refusal(served):
    for headers, text in ((GRPC_INFER, None), (GRPC_ADMIN, SAYS_GRPC.format("infer-key"))):
        answers = []
        with grpcclient.InferenceServerClient(f"127.0.0.1:{served.ports['grpc']}") as client:
            client.start_stream(lambda result, error, answers=answers: answers.append((result, error)), headers=headers)
            # The refusal does not wait for a request: when it is there first, the client sends none.
            with suppress(InferenceServerException) if text is not None else nullcontext():
                client.async_stream_infer("add_sub", inputs(grpcclient))
            client.stop_stream()
        ((_, error),) = answers
        assert (error is None) == (text is None)
        if text is not None:
            assert text in str(error)


def test_standard_health_belongs_to_health(served):
    with grpc.insecure_channel(f"127.0.0.1:{served.ports['grpc']}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        with pytest.raises(grpc.RpcError) as refused:
            stub.Check(request)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.RpcError):
            next(stub.Watch(request))
        answer = stub.Check(request, metadata=tuple(GRPC_INFER.items()))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    "line",
    [
        "POST /v2/models/add_sub/generate",
        "POST /v2/models/add_sub/versions/1/generate_stream",
        "GET /v2/models/add_sub/infer",
        "POST /v2/models/nobody/infer",
        "GET /v2/health/live",
        "HEAD /v2",
        "DELETE /v2/health/ready",
        "GET /app",
        "GET /app/below",
        "GET /%61pp",
        "GET /v2/models/%61dd_sub/ready",
    ],
)
def test_every_path_of_a_category_whatever_the_method(served, line):
    method, path = line.split()
    connection = http.client.HTTPConnection("127.0.0.1", served.ports["http"], timeout=20)
    for headers, expected in (({}, True), (ADMIN, True), (INFER, False)):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert (answer.status == 403) == expected
    connection.close()


def test_a_large_body_is_refused_before_it_is_looked_at_and_the_client_sees_why(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.ports["http"], timeout=20)
    connection.request("POST", "/v2/models/add_sub/infer", body=b"x" * (200 << 20))  # more than any body may have
    answer = connection.getresponse()
    assert (answer.status, b"restricted" in answer.read()) == (403, True)
    connection.request("GET", "/v2/models/stats")
    assert connection.getresponse().status == 200
    connection.close()


def test_secrets_are_not_in_the_log(tmp_path):
    onnx_models.save(onnx_models.add_sub(), tmp_path, "add_sub", 1)
    log = tmp_path / "log.txt"
    groups = ("inference:infer-key=very-secret",)
    options = {"http_restricted_api": groups, "grpc_restricted_protocol": groups, "log_verbose": 9}
    with (
        Server(tmp_path, http_port=0, grpc_port=0, log_file=str(log), exit_on_error=False, **options) as server,
        httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client,
    ):
        client.infer("add_sub", inputs(httpclient), headers={"infer-key": "very-secret"})
    assert log.read_text()
    assert "very-secret" not in log.read_text()
