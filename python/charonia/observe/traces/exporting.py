"""The SDK's exporter, with a limit to how long a stop waits for a collector. Needs the extra `otel`: import it late."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class LimitedExporter(SpanExporter):
    """Exports by another one, until it is given up.

    Attributes:
        lost: spans that the collector did not take.
    """

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._given_up = threading.Lock()
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE if self._given_up.locked() else self._inner.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Give up: what is being tried again fails, and so does what follows. More than once is no mistake."""
        if self._given_up.acquire(blocking=False):
            self._inner.shutdown()

    @contextmanager
    def given_up_after(self, limit_s: float) -> Iterator[None]:
        """Inside, exports go on for so long. The SDK would try a collector that is not there for half a minute."""
        timer = threading.Timer(limit_s, self.shutdown)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
