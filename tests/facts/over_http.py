"""Sends the HTTP requests of rows as bytes, and takes the answers apart."""

import gzip
import json
import re
import socket
import zlib
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.facts.rows import Answer
from tests.models.gated import PATIENCE_S

# The headers that clients or proxies act on; a header that is absent is "".
HEADERS = (
    "Inference-Header-Content-Length",
    "Content-Encoding",
    "Accept-Encoding",
    "Transfer-Encoding",
    "Allow",
)
_COMPRESS = {"gzip": lambda text: gzip.compress(text, mtime=0), "deflate": zlib.compress}
_DECOMPRESS = {"gzip": gzip.decompress, "deflate": zlib.decompress}
# What differs from run to run, and sentences.
_TIMES = re.compile(r'("(?:ns|last_inference)":)[0-9]+')
_REASONS = re.compile(r'("reason":)"(?!unloaded")(?:[^"\\]|\\.)*"')


class _Connection:
    """One connection, whose buffer outlives an answer: what follows it belongs to the next."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.reader = self.socket.makefile("rb")

    def makefile(self, _mode: str) -> "_Connection":
        return self

    def close(self) -> None:
        """Called when an answer is read."""

    def flush(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)


def ask(ports: dict[str, int], request: dict[str, Any]) -> Answer:
    """Send a row's request over a new connection and read its answer, or all answers to `raw`."""
    connection = _Connection(ports[request.get("port", "http")])
    try:
        if "raw" in request:
            return _ask_raw(connection, request["raw"].encode("latin-1"))
        connection.socket.sendall(_as_bytes(request))
        return _answer(connection, request["http"].split(" ")[0])
    finally:
        connection.reader.close()
        connection.socket.close()


def _ask_raw(connection: _Connection, sent: bytes) -> Answer:
    """The first answer, and how many came until the server closed."""
    connection.socket.sendall(sent)
    method = sent.split(b" ")[0].decode("latin-1")
    first = _answer(connection, method)
    count = 0 if first.get("closed") else 1
    while count and not _answer(connection, method).get("closed"):
        count += 1
    return {**first, "answers": count}


def _as_bytes(request: dict[str, Any]) -> bytes:
    body = request["bytes"].encode("latin-1") if "bytes" in request else request.get("body", "").encode()
    if "compress" in request:
        body = _COMPRESS[request["compress"]](body)
    lines = [f"{request['http']} HTTP/1.1", "Host: localhost", *request.get("headers", ())]
    if body or request["http"].startswith(("POST", "PUT", "PATCH")):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _answer(connection: _Connection, method: str) -> Answer:
    response = HTTPResponse(connection, method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ConnectionError, ValueError):
        return {"closed": True}
    return _parts(response, body)


def _parts(response: HTTPResponse, body: bytes) -> Answer:
    found: Answer = {"status": response.status, "type": response.headers.get("Content-Type", "")}
    if response.reason != BaseHTTPRequestHandler.responses[response.status][0]:
        found["reason"] = response.reason
    for name in HEADERS:
        if value := response.headers.get(name):
            found[name.lower()] = value
    body = _DECOMPRESS.get(found.get("content-encoding", ""), bytes)(body)
    return {**found, **_content(body)}


def _content(body: bytes) -> Answer:
    error = _error_in(body)
    if error is not None:
        return {"error": error}
    if body.startswith(b"# HELP"):
        return {"metrics": _families(body.decode())}
    try:
        return {"body": _REASONS.sub(r'\1"…"', _TIMES.sub(r"\g<1>0", body.decode()))}
    except UnicodeDecodeError:
        return {"bytes": body.decode("latin-1")}


def _error_in(body: bytes) -> str | None:
    """The sentence of a body that is `{"error":"…"}` and nothing more."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    alone = isinstance(document, dict) and list(document) == ["error"] and isinstance(document["error"], str)
    return document["error"] if alone else None


def _families(page: str) -> list[str]:
    """Of Triton's names on a page of metrics: the kind, the labels, and the values of those that are not of a model."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    found = set()
    for name, labels in re.findall(r"^(nv_[a-z_0-9]+)(?:\{(.*)\})? \S+$", page, re.M):
        family = name if name in kinds else re.sub(r"_(sum|count|bucket)$", "", name)
        keys = re.findall(r'([a-z_]+)="([^"]*)"', labels)
        shown = ", ".join(key if key in ("model", "version") else f"{key}={value}" for key, value in keys)
        found.add(f"{name} {kinds[family]} {{{shown}}}")
    return sorted(found)
