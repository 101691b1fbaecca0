"""Contexts of spans, as W3C Trace Context writes them: who called, in which trace."""

import re
from dataclasses import dataclass
from random import SystemRandom

_RANDOM = SystemRandom()
# Later versions may have more fields behind these.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_STATE = 512


@dataclass(frozen=True, slots=True)
class SpanContext:
    """One span: its trace's number of 128 bits, and its own of 64. `state` is passed on as it came."""

    trace_id: int
    span_id: int
    state: str = ""

    def child(self) -> "SpanContext":
        """Another span of the same trace."""
        return SpanContext(self.trace_id, _number(64), self.state)

    def headers(self) -> dict[str, str]:
        """`traceparent`, and `tracestate` where there is one."""
        headers = {"traceparent": f"00-{self.trace_id:032x}-{self.span_id:016x}-01"}
        if self.state:
            headers["tracestate"] = self.state
        return headers


def new_context() -> SpanContext:
    """The first span of a new trace."""
    return SpanContext(_number(128), _number(64))


def context_of_headers(traceparent: str, tracestate: str | None) -> SpanContext | None:
    """None for what is no valid context: then there is none, as the specification has it."""
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    if not (trace_id and span_id):
        return None
    state = tracestate or ""
    return SpanContext(trace_id, span_id, state if len(state) <= _MAX_STATE and state.isprintable() else "")


def _number(bits: int) -> int:
    return _RANDOM.getrandbits(bits) or 1
