"""A trace file in Triton's format as one that trace viewers open: Perfetto (ui.perfetto.dev) and chrome://tracing.

Each traced call of a client is a track of its own: its stages lie one inside the other as slices, moments are instants,
and tensors are arguments. https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from charonia.core.errors import InvalidArgumentError

Event = dict[str, Any]
Stamps = dict[str, int]

_PROCESS = 1
# (slice, stamp where it begins, stamp where it ends), outer ones before those in them.
_CALL = (
    ("receive", "HTTP_RECV_START", "HTTP_RECV_END"),
    ("receive", "GRPC_WAITREAD_START", "GRPC_WAITREAD_END"),
    ("send", "HTTP_SEND_START", "HTTP_SEND_END"),
    ("send", "GRPC_SEND_START", "GRPC_SEND_END"),
)
_REQUEST = (
    ("queue", "QUEUE_START", "COMPUTE_START"),
    ("compute", "COMPUTE_START", "COMPUTE_END"),
    ("compute input", "COMPUTE_START", "COMPUTE_INPUT_END"),
    ("compute infer", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("compute output", "COMPUTE_OUTPUT_START", "COMPUTE_END"),
)
_KNOWN = {stamp for _, *stamps in (*_CALL, *_REQUEST) for stamp in stamps} | {"REQUEST_START", "REQUEST_END"}


@dataclass(slots=True)
class _Request:
    """All records of one number.

    Attributes:
        stamps: by name; of one that comes several times the first. `moments` has all others.
    """

    number: int
    names: dict[str, Any] = field(default_factory=dict)
    stamps: Stamps = field(default_factory=dict)
    moments: list[tuple[str, int]] = field(default_factory=list)
    tensors: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def parent(self) -> int:
        return int(self.names.get("parent_id", 0))

    @property
    def title(self) -> str:
        name = self.names.get("model_name")
        return f"{name} v{self.names.get('model_version')}" if name else "refused request"


def converted(records: Any) -> dict[str, Any]:
    """The document of the trace event format.

    Args:
        records: the array of Triton's file, read.

    Raises:
        InvalidArgumentError: it is none.
    """
    requests = _requests(records)
    events = [_meta("process_name", 0, "Charonia")]
    for root in requests.values():
        if root.parent not in requests:
            events += _call_events(root, _family(root, requests))
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _requests(records: Any) -> dict[int, _Request]:
    if not isinstance(records, list):
        raise InvalidArgumentError("a trace file is a JSON array of records, got something else")
    requests: dict[int, _Request] = {}
    for at, record in enumerate(records):
        try:
            _take(requests.setdefault(int(record["id"]), _Request(int(record["id"]))), record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgumentError(f"record {at} is none of a trace file: {error!r}") from None
    return requests


def _take(request: _Request, record: dict[str, Any]) -> None:
    if "model_name" in record:
        request.names = record
    for stamp in record.get("timestamps", ()):
        name, ns = str(stamp["name"]), int(stamp["ns"])
        if name in _KNOWN:
            request.stamps.setdefault(name, ns)
        else:
            request.moments.append((name, ns))
    if "activity" in record:
        tensor = record["tensor"]
        request.tensors.append((str(record["activity"]), {key: str(value) for key, value in tensor.items()}))


def _family(root: _Request, requests: dict[int, _Request]) -> list[_Request]:
    """The request and all that it has led to, each before those that it has led to."""
    family, known = [root], {root.number}
    for request in sorted(requests.values(), key=lambda each: each.number):
        if request.parent in known and request.number not in known:
            known.add(request.number)
            family.append(request)
    return family


def _call_events(root: _Request, family: Sequence[_Request]) -> Iterator[Event]:
    """The track of one call, and one for each request that runs beside others of it."""
    yield _meta("thread_name", root.number, f"{root.number}: {root.title}")
    begun = [*root.stamps.values(), *(ns for _, ns in root.moments)]
    if begun:
        yield _slice("call", root.number, min(begun), max(begun), {"id": root.number})
        yield from _slices(root, _CALL)
    for request in family:
        if request is not root:
            yield _meta("thread_name", request.number, f"{request.number}: {request.title}, of {request.parent}")
        yield from _request_events(request)
        yield from _flow(request)


def _request_events(request: _Request) -> Iterator[Event]:
    stamps = request.stamps
    if "REQUEST_START" in stamps:
        end_ns = stamps.get("REQUEST_END", max(stamps.values()))
        yield _slice(request.title, request.number, stamps["REQUEST_START"], end_ns, _arguments(request))
    elif request.tensors:
        yield _instant(request.title, request.number, 0, _arguments(request))
    yield from _slices(request, _REQUEST)
    for name, ns in request.moments:
        yield _instant(name, request.number, ns, {})


def _slices(request: _Request, slices: Iterable[tuple[str, str, str]]) -> Iterator[Event]:
    stamps = request.stamps
    for name, start, end in slices:
        if start in stamps and end in stamps:
            yield _slice(name, request.number, stamps[start], stamps[end], {})


def _flow(request: _Request) -> Iterator[Event]:
    """An arrow from the request that led to this one."""
    start_ns = request.stamps.get("REQUEST_START")
    if request.parent and start_ns is not None:
        common = {"name": "leads to", "cat": "flow", "id": request.number, "pid": _PROCESS, "ts": start_ns / 1000}
        yield {**common, "ph": "s", "tid": request.parent}
        yield {**common, "ph": "f", "bp": "e", "tid": request.number}


def _arguments(request: _Request) -> dict[str, Any]:
    arguments: dict[str, Any] = {key: value for key, value in request.names.items() if key != "model_name"}
    for activity, tensor in request.tensors:
        arguments[f"{activity} {tensor.get('name', '')}"] = tensor
    return arguments


def _slice(name: str, track: int, start_ns: int, end_ns: int, arguments: dict[str, Any]) -> Event:
    """Times are microseconds in this format; fractions keep the nanoseconds."""
    return {
        "name": name,
        "cat": "request",
        "ph": "X",
        "ts": start_ns / 1000,
        "dur": max(0, end_ns - start_ns) / 1000,
        "pid": _PROCESS,
        "tid": track,
        "args": arguments,
    }


def _instant(name: str, track: int, ns: int, arguments: dict[str, Any]) -> Event:
    return {
        "name": name,
        "cat": "request",
        "ph": "i",
        "s": "t",
        "ts": ns / 1000,
        "pid": _PROCESS,
        "tid": track,
        "args": arguments,
    }


def _meta(name: str, track: int, value: str) -> Event:
    return {"name": name, "ph": "M", "pid": _PROCESS, "tid": track, "args": {"name": value}}
