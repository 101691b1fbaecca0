"""Finished traces as spans of OpenTelemetry, sent to a collector by OTLP over HTTP.

A trace is one span for the call (InferRequest), below it one for each request by its model's name, below that one for
its execution (compute), and those of a backend's own. The SDK sees them once they are over, on the writer's thread:
those who serve have nothing to do with it, and several servers in one process nothing with one another.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log
from charonia.observe.traces.as_json import Stamp, arrived, completed, computed, sent
from charonia.observe.traces.config import DEFAULT_SERVICE, TraceConfig, without_secret
from charonia.observe.traces.context import SpanContext
from charonia.observe.traces.record import Note, Trace, TracedRequest
from charonia.observe.traces.setting import TraceSetting

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanContext as OtelContext

    from charonia.observe.traces.exporting import LimitedExporter

ROOT = "InferRequest"
COMPUTE = "compute"
_SCOPE = "triton-server"
# What a collector has, when a server stops, to take what is left.
_LAST_S = 5.0


class SpanSink:
    """Where finished traces go in OpenTelemetry's mode, see `writer.Sink`.

    Raises:
        InvalidArgumentError: the packages for it are not installed.
    """

    def __init__(self, config: TraceConfig, log: Log) -> None:
        self._log = log
        self._exporter = _exporter(config)
        self._processor = _processor(config, self._exporter)
        self._resource = _resource(config)
        log.info(f"Traces are exported to {without_secret(_url(config))}")

    def take(self, trace: Trace) -> None:
        trace.setting.finished()
        for span in spans_of(trace, self._resource):
            self._processor.on_end(span)

    def retired(self, setting: TraceSetting) -> None:
        """Nothing waits for others of its setting."""

    def close(self) -> None:
        """Export what is left. A collector that is not there doesn't hold the stop up."""
        with self._exporter.given_up_after(_LAST_S):
            self._processor.shutdown()  # type: ignore[no-untyped-call]
        if self._exporter.lost:
            self._log.warning(f"spans that the collector did not take, and that are lost: {self._exporter.lost}")


def _exporter(config: TraceConfig) -> "LimitedExporter":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from charonia.observe.traces.exporting import LimitedExporter
    except ImportError as error:
        raise InvalidArgumentError(
            "--trace-config mode=opentelemetry needs packages that are not installed "
            f"({error.name}); install them by: pip install 'charonia[otel]'"
        ) from None
    return LimitedExporter(OTLPSpanExporter(endpoint=_url(config)))


def _processor(config: TraceConfig, exporter: "LimitedExporter") -> "BatchSpanProcessor":
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    batching = config.batching
    return BatchSpanProcessor(
        exporter,
        max_queue_size=batching.max_queue_size,
        # The SDK knows no delay of 0, and no batch that is larger than the queue; Triton takes both.
        schedule_delay_millis=max(1, batching.schedule_delay_ms),
        max_export_batch_size=min(batching.max_export_batch_size, batching.max_queue_size),
    )


def _url(config: TraceConfig) -> str:
    """Triton takes a URL without a scheme."""
    return config.url if "://" in config.url else f"http://{config.url}"


def _resource(config: TraceConfig) -> "Resource":
    from opentelemetry.sdk.resources import Resource

    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    default = {} if named else {"service.name": DEFAULT_SERVICE}
    return Resource.create({**default, **config.resource})


def spans_of(trace: Trace, resource: "Resource") -> "Iterator[ReadableSpan]":
    """Inner spans before those around them."""
    spans = _Spans(trace, resource)
    for request in trace.requests:
        yield from spans.of_request(request)
    yield spans.root()


class _Spans:
    def __init__(self, trace: Trace, resource: "Resource") -> None:
        assert trace.context is not None
        self._trace = trace
        self._root = trace.context
        self._resource = resource

    def root(self) -> "ReadableSpan":
        trace = self._trace
        stamps = [*arrived(trace), *completed(trace), *sent(trace)]
        ends = [ns for _, ns in stamps] + [request.end_ns for request in trace.requests]
        failures = [request.failure for request in trace.requests if request.parent is None]
        failure = failures[0] if failures else ""
        return self._span(ROOT, self._root, trace.parent, (trace.begun_ns, max(ends)), stamps, failure=failure)

    def of_request(self, request: TracedRequest) -> "Iterator[ReadableSpan]":
        context = request.context
        assert context is not None
        stamps = computed(request)
        if stamps:
            yield self._span(COMPUTE, context.child(), context, (stamps[0][1], stamps[-1][1]), stamps)
        spans, events = self._own(request, context)
        yield from spans
        parent = request.parent
        queued = [("QUEUE_START", request.queue_ns)] if request.queue_ns else []
        end_ns = request.end_ns or request.start_ns
        stamps = [("REQUEST_START", request.start_ns), *queued, *events, ("REQUEST_END", end_ns)]
        yield self._span(
            request.model_name,
            context,
            parent.context if parent is not None else self._root,
            (request.start_ns, end_ns),
            stamps,
            _attributes(request),
            request.failure,
        )

    def _own(self, request: TracedRequest, context: SpanContext) -> "tuple[list[ReadableSpan], list[Stamp]]":
        """The spans of a backend's own notes, and those notes that are in none of them."""
        spans: list[ReadableSpan] = []
        loose: list[Stamp] = []
        open_: list[tuple[str, SpanContext, SpanContext, list[Stamp]]] = []
        for note in request.notes:
            name, inside = note.name, open_[-1] if open_ else None
            if name.endswith("_START"):
                parent = inside[1] if inside else context
                open_.append((name.removesuffix("_START"), parent.child(), parent, [note]))
            elif name.endswith("_END") and inside:
                spans.append(self._ended(open_.pop(), note))
            else:
                (inside[3] if inside else loose).append(note)
        while open_:  # the backend has forgotten to end it
            spans.append(self._ended(open_.pop(), Note("", request.end_ns)))
        return spans, loose

    def _ended(self, begun: tuple[str, SpanContext, SpanContext, list[Stamp]], end: Note) -> "ReadableSpan":
        name, context, parent, stamps = begun
        events = [*stamps, end] if end.name else stamps
        return self._span(name, context, parent, (stamps[0][1], end.ns), events)

    def _span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        times_ns: tuple[int, int],
        stamps: Sequence[Stamp],
        attributes: dict[str, str | int] | None = None,
        failure: str = "",
    ) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        wall_ns = self._trace.wall_ns
        return ReadableSpan(
            name,
            _otel(context),
            _otel(parent, is_remote=context is self._root) if parent is not None else None,
            self._resource,
            attributes or {},
            [self._event(*stamp) for stamp in stamps],
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR, failure) if failure else Status(),
            start_time=wall_ns + times_ns[0],
            end_time=wall_ns + max(times_ns),
            instrumentation_scope=InstrumentationScope(_SCOPE),
        )

    def _event(self, name: str, ns: int) -> "Event":
        from opentelemetry.sdk.trace import Event

        return Event(name, timestamp=self._trace.wall_ns + ns)


def _attributes(request: TracedRequest) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "triton.model_name": request.model_name,
        "triton.model_version": request.version,
        "triton.trace_id": request.number,
        "triton.trace_parent_id": request.parent.number if request.parent is not None else 0,
    }
    if request.request_id:
        attributes["triton.request_id"] = request.request_id
    return attributes


def _otel(context: SpanContext, *, is_remote: bool = False) -> "OtelContext":
    from opentelemetry.trace import SpanContext as OtelContext
    from opentelemetry.trace import TraceFlags, TraceState

    state = TraceState.from_header([context.state]) if context.state else None
    return OtelContext(context.trace_id, context.span_id, is_remote, TraceFlags(TraceFlags.SAMPLED), state)
