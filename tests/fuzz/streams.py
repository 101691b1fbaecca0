"""Whole connections as clients send them, and ways to break them. Everything follows from the chance that is given."""

import gzip
import json
from collections.abc import Iterator
from random import Random

import numpy as np
from tritonclient.grpc import model_config_pb2, service_pb2

from tests.wire.served import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    call_headers,
    frame,
    frames,
)

Connection = tuple[str, bytes]
"""Which port ("http" or "grpc"), and what is sent there."""

MODEL = "m"
TENSOR = {"data_type": "TYPE_FP32", "dims": [-1]}
CONFIG = json.dumps(
    {
        "backend": "identity",
        "max_batch_size": 2,
        "input": [{"name": "INPUT0", **TENSOR}],
        "output": [{"name": "OUTPUT0", **TENSOR}],
    }
)
JSON = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2]}], "id": "x"}
BINARY = {
    "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}],
    "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
}


def http_connections() -> Iterator[bytes]:
    """Right requests of every kind."""
    infer, binary = json.dumps(JSON).encode(), json.dumps(BINARY).encode()
    path = f"/v2/models/{MODEL}/infer"
    length = f"Inference-Header-Content-Length: {len(binary)}"
    yield post(path, infer)
    yield post(path, binary + bytes(8), length) * 2
    yield post(
        path, gzip.compress(infer, mtime=0), "Content-Encoding: gzip", "Accept-Encoding: gzip", "Expect: 100-continue"
    )
    chunks = b"%x;a=b\r\n%s\r\n0\r\nT: 1\r\n\r\n" % (len(infer), infer)
    yield post(path, chunks, "Transfer-Encoding: chunked", "Trailer: T")
    yield post(path, bytes(8), "Inference-Header-Content-Length: 0")
    load = json.dumps({"parameters": {"config": CONFIG, "file:1/model.bin": "AAAA"}}).encode()
    yield post("/v2/repository/models/n/load", load)
    yield post("/v2/repository/models/n/unload", b'{"parameters":{"unload_dependents":true}}')
    yield post("/v2/repository/index", b'{"ready":true}')
    yield post("/v2/logging", b'{"log_verbose_level":0}')
    for path in ("", "/health/ready", f"/models/{MODEL}", f"/models/{MODEL}/versions/1/config", "/models/stats"):
        yield f"GET /v2{path}?a=b HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    yield b"OPTIONS * HTTP/1.0\r\n\r\n"


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: h", *headers]
    if "Transfer-Encoding: chunked" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def grpc_connections() -> Iterator[bytes]:
    raw = service_pb2.ModelInferRequest(model_name=MODEL, raw_input_contents=[np.float32([1, 2]).tobytes()])
    raw.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 2])
    typed = service_pb2.ModelInferRequest(model_name=MODEL, id="x")
    typed.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 2]).contents.fp32_contents.extend([1, 2])
    yield call("ModelInfer", raw) + call("ModelInfer", typed, stream=3)
    yield call("ModelInfer", raw, ("grpc-encoding", "gzip"), ("grpc-timeout", "1S"), packed=True)
    yield call("ModelStreamInfer", raw, typed, raw)
    loaded = service_pb2.RepositoryModelLoadRequest(model_name="n")
    loaded.parameters["config"].string_param = CONFIG
    yield call("RepositoryModelLoad", loaded)
    yield call("RepositoryModelUnload", service_pb2.RepositoryModelUnloadRequest(model_name="n"))
    yield call("RepositoryIndex", service_pb2.RepositoryIndexRequest(ready=True))
    yield call("ModelConfig", service_pb2.ModelConfigRequest(name=MODEL, version="1"))
    yield call("ModelStatistics", service_pb2.ModelStatisticsRequest(name=MODEL))
    yield call("ServerMetadata", model_config_pb2.ModelConfig())


def call(method: str, *parts: object, stream: int = 1, packed: bool = False) -> bytes:
    """One call: headers and messages, each in a frame of its own."""
    more = [part for part in parts if isinstance(part, tuple)]
    made = frame(HEADERS, END_HEADERS, stream, call_headers(method, *more))
    for part in parts:
        if not isinstance(part, tuple):
            message = part.SerializeToString()
            message = gzip.compress(message, mtime=0) if packed else message
            made += frame(DATA, 0, stream, bytes([packed]) + len(message).to_bytes(4, "big") + message)
    return made + frame(DATA, END_STREAM, stream)


HTTP = tuple(http_connections())
GRPC = tuple(grpc_connections())
WORDS = (
    b"\r\n", b"\r\n\r\n", b"\0", b"{", b"[", b'"', b"\xff", b"%2e%2e%2f", b"/", b"1e999", b"NaN", b"-1", b"9" * 20,
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", PREFACE,
    b"\x7f\xff\xff\xff", b"\x1f\x8b\x08", b"inputs", b'"shape":[0]',
)  # fmt: skip


def broken(chance: Random) -> Connection:
    """A right connection made wrong, mostly; now and then HTTP/2 on the HTTP port too."""
    if chance.random() < 0.5:
        return "http", damaged(chance, chance.choice(HTTP) + chance.choice(HTTP) * chance.randrange(2))
    sent = shuffled(chance, frames(chance.choice(GRPC) + chance.choice(GRPC) * chance.randrange(2)))
    whole = PREFACE + frame(SETTINGS) + sent
    door = "http" if chance.random() < 0.1 else "grpc"
    return door, damaged(chance, whole) if chance.random() < 0.5 else whole


def damaged(chance: Random, sent: bytes) -> bytes:
    """With a few bytes changed, dropped, doubled or put in."""
    made = bytearray(sent)
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            made[at : at + 1] = chance.randbytes(1)
        elif kind == 1:
            del made[at : at + chance.randint(1, 30)]
        elif kind == 2:
            made[at:at] = made[at : at + chance.randint(1, 60)] * chance.choice([1, 1, 2, 50])
        elif kind == 3:
            made[at:at] = chance.choice(WORDS)
        elif kind == 4:
            made[at:at] = chance.randbytes(chance.randint(1, 20))
        else:
            del made[at:]
    return bytes(made)


def shuffled(chance: Random, found: list[tuple[int, int, int, bytes]]) -> bytes:
    """Frames in another order, changed, doubled, left out, and others among them."""
    made = list(found)
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            made.insert(at, other(chance))
        elif not made:
            continue
        elif kind == 1:
            del made[min(at, len(made) - 1)]
        elif kind == 2:
            made[at:at] = made[at : at + 2] * chance.choice([1, 1, 20])
        elif kind == 3:
            made.insert(at, made.pop(chance.randrange(len(made))))
        else:
            at = min(at, len(made) - 1)
            which, flags, stream, payload = made[at]
            made[at] = chance.choice(
                [
                    (chance.randrange(12), flags, stream, payload),
                    (which, chance.randrange(256), stream, payload),
                    (which, flags, chance.choice([0, 2, 5, 2**31 - 1]), payload),
                    (which, flags, stream, damaged(chance, payload)),
                ]
            )
    return b"".join(frame(*each) for each in made)


def other(chance: Random) -> tuple[int, int, int, bytes]:
    """A frame that brings no data."""
    stream = chance.choice([0, 1, 1, 3])
    return chance.choice(
        [
            (RST_STREAM, 0, stream, bytes(4)),
            (PING, chance.randrange(2), 0, bytes(8)),
            (SETTINGS, 0, 0, b"\0\x04" + chance.choice([b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"])),
            (WINDOW_UPDATE, 0, stream, chance.choice([b"\0\0\0\0", b"\x7f\xff\xff\xff"])),
            (GOAWAY, 0, 0, bytes(8)),
            (PRIORITY, 0, stream, b"\0\0\0\1\x10"),
            (CONTINUATION, END_HEADERS, stream, b""),
            (HEADERS, END_HEADERS | END_STREAM, 5, call_headers("ServerLive")),
        ]
    )
