"""Spans at a collector: a server that exports by OTLP, and a receiver that reads what comes."""

import queue
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from charonia.api import Server
from tests.models.repository import write_python_model

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATIENCE_S = 20
PARENT = "00-0af7651916cd43dd8448eb211c12666c-b7ad6b7169242424-01"
TELLS = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            texts = [request.trace().get_context() or "none" for request in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([t], np.object_))]) for t in texts]
"""
CONFIG = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] } ]
"""


class Collector:
    """Takes what is exported to `url`."""

    def __init__(self):
        self.messages = queue.SimpleQueue()
        messages = self.messages

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                messages.put((self.path, ExportTraceServiceRequest.FromString(body)))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *what):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def close(self):
        self._server.shutdown()
        self._thread.join(PATIENCE_S)
        self._server.server_close()

    def spans(self):
        """(resource attributes, spans by name) of the next message."""
        path, message = self.messages.get(timeout=PATIENCE_S)
        assert path == "/v1/traces"
        (resource,) = message.resource_spans
        (scope,) = resource.scope_spans
        attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
        return attributes, {span.name: span for span in scope.spans}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spans")
    write_python_model(folder, "tells", CONFIG, TELLS)
    return folder


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def serve(repository, collector):
    made = []

    def start(*settings):
        config = (
            "mode=opentelemetry",
            "level=TIMESTAMPS",
            f"opentelemetry,url={collector.url}",
            "opentelemetry,resource=test.key=test.value",
            "opentelemetry,bsp_schedule_delay=3600000",  # all goes at the end of the server
            *settings,
        )
        ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
        made.append(Server(repository, **ports, trace_config=config).start())
        return made[-1]

    yield start
    for server in made:
        server.stop()


def ask(server, door, headers=None):
    """What the model was told of its trace."""
    module = {"http": httpclient, "grpc": grpcclient}[door]
    tensor = module.InferInput("IN", [1], "FP32")
    tensor.set_data_from_numpy(np.zeros(1, np.float32))
    with module.InferenceServerClient(f"127.0.0.1:{server.ports[door]}") as client:
        return client.infer("tells", [tensor], headers=headers, request_id="r").as_numpy("OUT")[0].decode()


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_a_request_is_three_spans(serve, collector, door):
    server = serve("rate=1")
    told = ask(server, door)
    server.stop()
    resource, spans = collector.spans()
    assert resource["service.name"] == "triton-inference-server"
    assert resource["test.key"] == "test.value"
    assert set(spans) == {"InferRequest", "tells", "compute"}
    root, model, compute = spans["InferRequest"], spans["tells"], spans["compute"]
    assert root.parent_span_id == b""
    assert (model.parent_span_id, compute.parent_span_id) == (root.span_id, model.span_id)
    assert f'"traceparent": "00-{root.trace_id.hex()}-{model.span_id.hex()}-01"' in told
    front = {"http": "HTTP_RECV_START", "grpc": "GRPC_WAITREAD_START"}[door]
    assert root.events[0].name == front
    assert {each.key for each in model.attributes} == {
        "triton.model_name",
        "triton.model_version",
        "triton.trace_id",
        "triton.trace_parent_id",
        "triton.request_id",
    }


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_a_callers_context_is_followed_whatever_the_rate(serve, collector, door):
    server = serve("rate=0")
    assert ask(server, door) == "none"
    assert "0af7651916cd43dd8448eb211c12666c" in ask(server, door, {"traceparent": PARENT})
    server.stop()
    _, spans = collector.spans()
    root = spans["InferRequest"]
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == ("0af7651916cd43dd8448eb211c12666c", "b7ad6b7169242424")


def test_spans_are_exported_while_the_server_runs(serve, collector):
    server = serve("rate=1", "opentelemetry,bsp_schedule_delay=1")
    ask(server, "http")
    assert collector.spans()[1]


def test_several_servers_of_a_process_have_a_tracer_each(serve, collector):
    first, second = serve("rate=1", "opentelemetry,resource=which=first"), serve("rate=0")
    assert ask(second, "http") == "none"
    ask(first, "http")
    second.stop()
    first.stop()
    assert collector.spans()[0]["which"] == "first"


def test_a_collector_that_is_away_costs_no_request(repository):
    config = ("mode=opentelemetry", "level=TIMESTAMPS", "rate=1", "opentelemetry,url=127.0.0.1:1/v1/traces")
    with Server(repository, http_port=0, grpc_port=0, metrics_port=0, trace_config=config) as server:
        assert "traceparent" in ask(server, "http")
