"""The thread that finished traces are written by: those who serve hand them over, and wait for nothing."""

import threading
import time
from collections import deque
from typing import Protocol

from charonia.core.log import Log
from charonia.core.protocols import OnDeath
from charonia.core.threads import SupervisedThread
from charonia.observe.traces.record import Trace
from charonia.observe.traces.setting import TraceSetting

# A trace without tensors takes about 20 µs to be written and 3 KB to wait.
_MAX_WAITING = 16_384
_MAX_WAITING_BYTES = 512 << 20
_TELL_EVERY_S = 10.0


class Sink(Protocol):
    """Where finished traces go. Used by one thread; calls may take long."""

    def take(self, trace: Trace) -> None:
        """Write it, now or later. Tells its setting that it is `finished`."""

    def retired(self, setting: TraceSetting) -> None:
        """Another has taken its place; traces that were begun still come."""

    def close(self) -> None:
        """Write what is left."""


class Nowhere:
    """The sink where there is no other: nothing is sampled then."""

    def take(self, trace: Trace) -> None:
        trace.setting.finished()

    def retired(self, setting: TraceSetting) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is left."""


class TraceWriter:
    """Any thread may call it. Traces that it can't follow are dropped, counted, and told in the log."""

    def __init__(self, sink: Sink, log: Log, on_death: OnDeath) -> None:
        self._sink = sink
        self._log = log
        self._changed = threading.Condition()
        self._waiting: deque[Trace | TraceSetting] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._tell_at_s = 0.0
        self._closed = False
        self._thread = SupervisedThread("trace-writer", self._run, on_death)

    def start(self) -> None:
        self._thread.start()

    def put(self, trace: Trace) -> None:
        size = _tensor_bytes(trace)
        with self._changed:
            full = len(self._waiting) >= _MAX_WAITING or self._waiting_bytes + size > _MAX_WAITING_BYTES
            if not (full or self._closed):
                self._waiting.append(trace)
                self._waiting_bytes += size
                self._changed.notify()
                return
            self._dropped += 1
        trace.setting.finished()

    def retire(self, settings: list[TraceSetting]) -> None:
        with self._changed:
            self._waiting.extend(settings)
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Write what is there. False if that takes longer: what is left is lost, and told."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.finish(timeout_s):
            return True
        with self._changed:
            lost = self._dropped + sum(isinstance(each, Trace) for each in self._waiting)
            self._waiting.clear()
        self._log.error(f"the last traces could not be written in the time that there was; lost are {lost}")
        return False

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._handle(item)
        self._sink.close()

    def _next(self) -> Trace | TraceSetting | None:
        """None once it is closed and nothing is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            item = self._waiting.popleft()
            if isinstance(item, Trace):
                self._waiting_bytes -= _tensor_bytes(item)
        self._tell_dropped(not self._waiting)
        return item

    def _tell_dropped(self, is_last: bool) -> None:
        """Not for each of them, or the log would be full of it."""
        now_s = time.monotonic()
        if not self._dropped or (now_s < self._tell_at_s and not (is_last and self._closed)):
            return
        self._tell_at_s = now_s + _TELL_EVERY_S
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        self._log.warning(f"{dropped} traces were dropped: they came faster than they can be written")

    def _handle(self, item: Trace | TraceSetting) -> None:
        if isinstance(item, TraceSetting):
            self._sink.retired(item)
            return
        try:
            self._sink.take(item)
        except Exception as error:  # a tensor that lies about itself: other traces must not suffer
            self._log.error(f"the trace of a request to {_who(item)} can't be written: {error!r}")


def _tensor_bytes(trace: Trace) -> int:
    return sum(noted.tensor.buffer.nbytes for request in trace.requests for noted in request.tensors)


def _who(trace: Trace) -> str:
    return f"model '{trace.requests[0].model_name}'" if trace.requests else "a model"
