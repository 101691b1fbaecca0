"""Requests that no client library would send: bytes over HTTP, messages over gRPC."""

import json
import socket

import grpc
import httpx
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.models.gated import PATIENCE_S

HEADER_LENGTH = "Inference-Header-Content-Length"
infer_pb2 = service_pb2


class RawHttp:
    """One HTTP connection pool to a server's inference port."""

    def __init__(self, server) -> None:
        self.port = server.ports["http"]
        # Reading the system's certificates would take longer than any of the tests.
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S, verify=False)

    def post(self, model, body, headers=None, *, verb="infer"):
        """POST bytes, or an iterator of chunks, as they are."""
        return self.client.post(f"/v2/models/{model}/{verb}", content=body, headers=headers or {})

    def infer(self, model, document, tail=b"", headers=None):
        """POST a document as JSON, or JSON text as it is, with binary data behind it."""
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        length = {HEADER_LENGTH: str(len(text))} if tail else {}
        return self.post(model, text + tail, {**length, **(headers or {})})

    def close(self):
        self.client.close()


class RawGrpc:
    """The stub of the public service definition."""

    def __init__(self, server) -> None:
        self.port = server.ports["grpc"]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def infer(self, message):
        return self.stub.ModelInfer(message, timeout=PATIENCE_S)

    def close(self):
        self.channel.close()


def one_input(data, *, name="INPUT0", datatype="FP32", shape=None, **more):
    """The document of a request with one JSON tensor."""
    dims = [len(data)] if shape is None else shape
    return {"inputs": [{"name": name, "datatype": datatype, "shape": dims, "data": data}], **more}


def binary_input(size, *, name="INPUT0", datatype="FP32", shape=(1,)):
    """The document of a request with one tensor whose bytes follow the JSON."""
    return {
        "inputs": [{"name": name, "datatype": datatype, "shape": list(shape), "parameters": {"binary_data_size": size}}]
    }


def exchange(port, request):
    """Send bytes over a new connection; the answer's status, head and body, read until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), head.decode(), body.decode()


def http_request(path, body, headers=()):
    """The bytes of a POST that asks the server to close afterwards."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in lines):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
