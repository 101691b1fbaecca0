"""Traces of calls from the wire: begun when a call is taken, left when the wire has done with its answer."""

from charonia._wire import InferCall
from charonia.observe.traces.record import Trace
from charonia.observe.traces.tracer import Tracer

_FRONTS = {"http": "HTTP", "grpc": "GRPC", "grpc_stream": "GRPC"}


class WireTraces:
    """Any thread may begin traces; one thread is told news of calls."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._watched: dict[int, tuple[InferCall, Trace]] = {}

    def begin(self, call: InferCall) -> Trace | None:
        """Of a call that was just taken; None where it is not traced."""
        sample = self._tracer.sample(call.model_name, call.header)
        if sample is None:
            return None
        trace = self._tracer.begin(sample, _FRONTS[call.protocol], call.begun_ns, call.arrival_ns)
        self._watched[call.key] = call, trace
        if not call.watch():
            self._leave(call.key)
        return trace

    def told(self, key: int) -> None:
        """The wire has news of the call of this key, of whatever kind."""
        call, _ = self._watched.get(key, (None, None))
        if call is not None and call.sent is not None:
            self._leave(key)

    def close(self) -> None:
        """No more news come."""
        for key in list(self._watched):
            self._leave(key)

    def _leave(self, key: int) -> None:
        call, trace = self._watched.pop(key, (None, None))
        if call is not None and trace is not None:
            sent_ns = call.sent
            trace.left(sent_ns if sent_ns is not None and sent_ns[1] else None)
