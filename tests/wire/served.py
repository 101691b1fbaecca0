"""A wire whose one model `m` answers each request with its inputs, and bytes to frighten it with."""

import json
import socket
import ssl
import struct
import threading
from typing import Any, Self

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from charonia._wire import InferCall, Reply, WireOptions, WireServer
from tests.certificates import Authority

PATIENCE_S = 20.0
"""Nothing waits this long when it works."""

FAILS = -1.0
"""A request whose first value this is fails in the model."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4


class _TlsSocket(ssl.SSLSocket):
    """Fails as a plain socket does when the server has hung up."""

    def sendall(self, data: Any, flags: int = 0) -> None:
        try:
            super().sendall(data, flags)
        except ssl.SSLEOFError as error:
            raise ConnectionResetError(str(error)) from None


class Served:
    """Open until `close`; a context. With an authority, both doors are under TLS."""

    def __init__(self, authority: Authority | None = None, **settings: Any) -> None:
        listening = {"http_address": "127.0.0.1", "http_port": 0, "grpc_address": "127.0.0.1", "grpc_port": 0}
        self._authority = authority
        if authority is not None:
            identity = authority.server("served")
            settings["http_tls"] = settings["grpc_tls"] = (str(identity.certificate), str(identity.key), None)
        self.wire = WireServer(WireOptions(**{**listening, **settings}))
        self.wire.start()
        self.wire.publish(True, True, {("m", ""): (True, 0, False)})
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while items := self.wire.take(64, PATIENCE_S * 10):
            calls = [item for item in items if isinstance(item, InferCall)]
            self.wire.fail_batch([(call, *call.defect) for call in calls if call.defect])
            self.wire.fail_batch([(call, 13, "the model failed", True, True) for call in calls if _fails(call)])
            self.wire.reply_batch([_echo(call) for call in calls if not call.defect and not _fails(call)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.wire.shutdown(0.0)
        self._thread.join(PATIENCE_S)

    def connect(self, door: str = "http") -> socket.socket:
        port = self.wire.ports[door]
        connection = socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE_S)
        if self._authority is None:
            return connection
        context = self._authority.trusting()
        context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
        context.sslsocket_class = _TlsSocket
        return context.wrap_socket(connection, server_hostname="127.0.0.1")

    def channel(self, *options: tuple[str, Any]) -> grpc.Channel:
        place, all_options = f"127.0.0.1:{self.wire.ports['grpc']}", [("grpc.use_local_subchannel_pool", 1), *options]
        if self._authority is None:
            return grpc.insecure_channel(place, all_options)
        credentials = grpc.ssl_channel_credentials(self._authority.root.read_bytes())
        return grpc.secure_channel(place, credentials, all_options)

    def answers(self) -> bool:
        """Whether new clients of both doors are answered."""
        with self.connect() as http, self.channel() as channel:
            http.sendall(request(json_body([1.5])))
            right = b"1.5" in read_answer(http)
            return right and grpc_value(stub(channel).ModelInfer(message([2.5]), timeout=PATIENCE_S)) == 2.5


def _fails(call: InferCall) -> bool:
    if call.defect:
        return False
    tensor = call.unpack()[4][0][3]
    return tensor.nbytes == 4 and struct.unpack("<f", bytes(memoryview(tensor)))[0] == FAILS


def _echo(call: InferCall) -> Reply:
    outputs = [(name, kind, shape, tensor, True) for name, kind, shape, tensor in call.unpack()[4]]
    return (call, "m", "1", outputs, None, True)


def json_body(values: list[float]) -> bytes:
    tensor = {"name": "X", "datatype": "FP32", "shape": [len(values)], "data": values}
    return json.dumps({"inputs": [tensor]}).encode()


def request(body: bytes, *headers: str, path: str = "/v2/models/m/infer") -> bytes:
    """The bytes of a POST; its length is announced unless a header says otherwise."""
    lines = [f"POST {path} HTTP/1.1", "Host: h", *headers]
    if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in lines):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_answer(connection: socket.socket) -> bytes:
    """One answer of known length, head and all."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, answer
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server hangs up, politely or not."""
    everything = b""
    try:
        while piece := connection.recv(65536):
            everything += piece
    except ConnectionError:
        pass
    return everything


def send_until_closed(connection: socket.socket, flood: bytes) -> None:
    """Send the same bytes again and again, for as long as the server listens."""
    connection.settimeout(PATIENCE_S)
    try:
        while True:
            connection.sendall(flood)
    except ConnectionError:
        pass


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def frames(received: bytes) -> list[tuple[int, int, int, bytes]]:
    """(kind, flags, stream, payload) of each whole frame."""
    found = []
    while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
        end = 9 + int.from_bytes(received[:3], "big")
        found.append((received[3], received[4], int.from_bytes(received[5:9], "big"), received[9:end]))
        received = received[end:]
    return found


def header_block(*headers: tuple[str, str]) -> bytes:
    """HPACK without tables: each header spelled out."""
    return b"".join(
        b"\x10" + _length(len(name)) + name.encode() + _length(len(value)) + value.encode() for name, value in headers
    )


def _length(number: int) -> bytes:
    if number < 127:
        return bytes((number,))
    number -= 127
    encoded = b"\x7f"
    while number >= 128:
        encoded += bytes((number % 128 + 128,))
        number //= 128
    return encoded + bytes((number,))


def call_headers(method: str = "ModelInfer", *more: tuple[str, str]) -> bytes:
    return header_block(
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/inference.GRPCInferenceService/{method}"),
        (":authority", "h"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    )


def begun(served: Served, door: str = "grpc") -> socket.socket:
    """A connection that has said that it speaks HTTP/2."""
    connection = served.connect(door)
    connection.sendall(PREFACE + frame(SETTINGS))
    return connection


def read_until_ended(connection: socket.socket, stream: int) -> bytes:
    """What comes until the server has ended the stream, or hung up."""
    received = b""
    while True:
        found = frames(received)
        if any(at == stream and (flags & END_STREAM or kind == RST_STREAM) for kind, flags, at, _ in found):
            return received
        piece = connection.recv(65536)
        if not piece:
            return received
        received += piece


def goaway(received: bytes) -> tuple[int, bytes] | None:
    """(error code, reason) of the last GOAWAY frame."""
    for kind, _, _, payload in reversed(frames(received)):
        if kind == GOAWAY:
            return int.from_bytes(payload[4:8], "big"), payload[8:]
    return None


def stub(channel: grpc.Channel) -> Any:
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(values: list[float], **fields: Any) -> Any:
    raw = np.array(values, np.float32).tobytes()
    asked = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[raw], **fields)
    asked.inputs.add(name="X", datatype="FP32", shape=[len(values)])
    return asked


def grpc_value(answer: Any) -> float:
    return float(np.frombuffer(answer.raw_output_contents[0], np.float32)[0])
