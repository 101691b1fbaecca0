"""A finished trace as records of Triton's trace file.

First the request of the client, then those that it has led to; of each its names, stamps and tensors, in the order of
its way.
"""

import json
from collections.abc import Iterator
from typing import Any

from charonia.observe.traces.record import Trace, TracedRequest
from charonia.observe.traces.setting import Level
from charonia.observe.traces.tensors import shape_of, text_of

_ARRIVED = {"HTTP": ("HTTP_RECV_START", "HTTP_RECV_END"), "GRPC": ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END")}
_SENT = {"HTTP": ("HTTP_SEND_START", "HTTP_SEND_END"), "GRPC": ("GRPC_SEND_START", "GRPC_SEND_END")}

Record = dict[str, Any]
Stamp = tuple[str, int]


def records_of(trace: Trace) -> bytes:
    """The records, in UTF-8, separated by commas: what goes between the brackets of the file's array."""
    records = (json.dumps(record, separators=(",", ":"), ensure_ascii=False) for record in _records(trace))
    return ",".join(records).encode(errors="backslashreplace")


def arrived(trace: Trace) -> list[Stamp]:
    start, end = _ARRIVED[trace.front]
    return [(start, trace.begun_ns), (end, trace.arrival_ns)]


def sent(trace: Trace) -> list[Stamp]:
    if trace.sent_ns is None:
        return []
    start, end = _SENT[trace.front]
    return [(start, trace.sent_ns[0]), (end, trace.sent_ns[1])]


def completed(trace: Trace) -> list[Stamp]:
    return [("INFER_RESPONSE_COMPLETE", ns) for ns in trace.completed_ns]


def computed(request: TracedRequest) -> list[Stamp]:
    stamps = request.stamps
    if stamps is None:
        return []
    input_end_ns = stamps.compute_start_ns + stamps.input_ns
    return [
        ("COMPUTE_START", stamps.compute_start_ns),
        ("COMPUTE_INPUT_END", input_end_ns),
        ("COMPUTE_OUTPUT_START", input_end_ns + stamps.infer_ns),
        ("COMPUTE_END", stamps.end_ns),
    ]


def _records(trace: Trace) -> Iterator[Record]:
    stamps = bool(trace.level & Level.TIMESTAMPS)
    if stamps:
        yield from _stamps(trace.number, arrived(trace))
    for request in trace.requests:
        yield from _of_request(request, stamps, completed(trace) if request.parent is None else [])
    if stamps:
        yield from _stamps(trace.number, sent(trace))


def _of_request(request: TracedRequest, with_stamps: bool, completed_at: list[Stamp]) -> Iterator[Record]:
    yield _names(request)
    number = request.number
    if with_stamps:
        yield from _stamps(number, [("REQUEST_START", request.start_ns)])
        if request.queue_ns:
            yield from _stamps(number, [("QUEUE_START", request.queue_ns)])
    yield from _tensors(request, "TENSOR_QUEUE_INPUT")
    if with_stamps:  # of several responses some leave while others are computed
        yield from _stamps(number, sorted([*computed(request), *request.notes, *completed_at], key=_time))
    yield from _tensors(request, "TENSOR_BACKEND_OUTPUT")
    if with_stamps and request.end_ns:
        yield from _stamps(number, [("REQUEST_END", request.end_ns)])


def _names(request: TracedRequest) -> Record:
    record: Record = {
        "id": request.number,
        "model_name": request.model_name,
        "model_version": request.version,
    }
    if request.request_id:
        record["request_id"] = request.request_id
    if request.parent is not None:
        record["parent_id"] = request.parent.number
    return record


def _time(stamp: Stamp) -> int:
    return stamp[1]


def _stamps(number: int, stamps: list[Stamp]) -> Iterator[Record]:
    for name, ns in stamps:
        yield {"id": number, "timestamps": [{"name": name, "ns": ns}]}


def _tensors(request: TracedRequest, activity: str) -> Iterator[Record]:
    if activity == "TENSOR_QUEUE_INPUT" and not request.queue_ns:
        return  # refused at the door
    for noted in request.tensors:
        if noted.activity == activity:
            tensor = noted.tensor
            content = {
                "name": tensor.name,
                "data": text_of(tensor),
                "shape": shape_of(tensor),
                "dtype": tensor.datatype,
            }
            yield {"id": request.number, "activity": activity, "tensor": content}
