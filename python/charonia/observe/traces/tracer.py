"""Traces of one server: front ends ask it of each request whether it is traced."""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from charonia.core.clock import Clock
from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log
from charonia.core.protocols import OnDeath
from charonia.observe.traces.config import TraceConfig
from charonia.observe.traces.context import SpanContext, context_of_headers, new_context
from charonia.observe.traces.file import FileSink, TraceFile
from charonia.observe.traces.record import Trace
from charonia.observe.traces.setting import Level, Mode, TraceSetting
from charonia.observe.traces.settings import TraceSettings
from charonia.observe.traces.writer import Nowhere, Sink, TraceWriter

Header = Callable[[str], str | None]
"""A header, or metadata, of the request by its name in lower case."""


class Sample(NamedTuple):
    """A request that is traced: by which setting, and in OpenTelemetry's mode with which span, below which one."""

    setting: TraceSetting
    context: SpanContext | None = None
    caller: SpanContext | None = None


class Tracer:
    """Any thread may use it.

    Args:
        sink: where traces go; by default as the configuration says.

    Attributes:
        on: whether any request is traced. All that a request costs while it is off: ask once for many.
        settings: what `on` comes from; may be changed at any time.

    Raises:
        InvalidArgumentError: the packages for OpenTelemetry are not installed, and something is to be traced.
    """

    def __init__(
        self, config: TraceConfig, clock: Clock, log: Log, on_death: OnDeath, sink: Sink | None = None
    ) -> None:
        self.config = config
        self._clock = clock
        self._needs_context = config.mode is Mode.OPENTELEMETRY
        self._numbers = count(1)
        self._listener: Callable[[bool], None] = lambda on: None
        obstacle = ""
        try:
            sink = sink or _sink(config, log)
        except InvalidArgumentError as error:
            if config.values.level and config.mode is Mode.OPENTELEMETRY:
                raise
            sink, obstacle = Nowhere(), str(error)
            if config.values.level:  # no reason for Triton not to start, so start scripts have it
                log.warning(f"nothing is traced: {obstacle}")
        self._writer = TraceWriter(sink, log, on_death)
        self.settings = TraceSettings(config.values, config.mode, obstacle, self._changed)
        self.on = self.settings.trace_something

    def start(self) -> None:
        self._writer.start()

    def close(self, timeout_s: float) -> bool:
        """Write what is finished. False if that takes longer. Traces that end later are lost."""
        return self._writer.close(timeout_s)

    def on_switch(self, listener: Callable[[bool], None]) -> None:
        """Call `listener` with `on`, now and whenever settings change."""
        self._listener = listener
        listener(self.on)

    def sample(self, model: str, header: Header) -> "Sample | None":
        """Of a request to `model` that has come: None where it is not traced, which has to be said quickly."""
        setting = self.settings.of(model)
        if not setting.level:
            return None
        if not self._needs_context:
            return Sample(setting) if setting.sample() else None
        traceparent = header("traceparent")
        caller = context_of_headers(traceparent, header("tracestate")) if traceparent else None
        if not setting.sample(forced=caller is not None):
            return None
        return Sample(setting, caller.child() if caller is not None else new_context(), caller)

    def begin(self, sample: "Sample", front: str, begun_ns: int, arrival_ns: int) -> Trace:
        """Its trace, to be left once.

        Args:
            front: HTTP or GRPC.
            begun_ns: when its first byte came, 0 where that is not known.
        """
        setting, context, caller = sample
        put = self._writer.put
        return Trace(setting, front, begun_ns, arrival_ns, self._clock, self._numbers, put, context, caller)

    def _changed(self, replaced: list[TraceSetting]) -> None:
        self._writer.retire(replaced)
        self.on = self.settings.trace_something
        self._listener(self.on)


def _sink(config: TraceConfig, log: Log) -> Sink:
    """Raises InvalidArgumentError: there is nowhere to write to."""
    if config.mode is Mode.TRITON:
        if not config.file:
            raise InvalidArgumentError(
                "trace file name is not given: start the server with --trace-config=triton,file=FILE"
            )
        return FileSink(TraceFile(config.file, log))
    if config.values.level & Level.TENSORS:
        log.warning("Tensor level tracing is not supported by the mode: opentelemetry; spans have timestamps only")
    from charonia.observe.traces.spans import SpanSink

    return SpanSink(config, log)
