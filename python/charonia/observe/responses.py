"""Counters of a decoupled model by response: the first of each request, the second, and so on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from charonia.core.errors import FailureReason
from charonia.core.request import InferRequest, Reply
from charonia.observe.durations import Duration

# A generation has hundreds of responses, a stream without an end must not grow the page without one.
_LIMIT = 1000


@dataclass(slots=True)
class ResponseCounters:
    """Of the responses with one index. Each took the time since the one before it, or since the execution began."""

    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    empty_response: Duration = field(default_factory=Duration)
    cancel: Duration = field(default_factory=Duration)

    def add(self, reply: Reply, duration_ns: int) -> None:
        if reply.error is not None and reply.error.failure_reason == FailureReason.CANCELED:
            self.cancel.add(1, duration_ns)
            return
        self.compute_infer.add(1, duration_ns)
        if reply.error is None and not reply.has_response:
            self.empty_response.add(1, duration_ns)
            return
        self.compute_output.add(1, 0)  # outputs are there when the response is
        (self.success if reply.error is None else self.fail).add(1, duration_ns)

    def merge(self, other: "ResponseCounters") -> None:
        """Count what `other` has counted as well."""
        for name in RESPONSE_COUNTERS:
            its = getattr(other, name)
            getattr(self, name).add(its.count, its.ns)


RESPONSE_COUNTERS = ("compute_infer", "compute_output", "success", "fail", "empty_response", "cancel")


class ResponseStatistics:
    """By index, up to 1,000 of them. Used under the lock of the model's statistics."""

    def __init__(self) -> None:
        self.by_index: dict[int, ResponseCounters] = {}
        self._begun: WeakKeyDictionary[InferRequest, tuple[int, int]] = WeakKeyDictionary()

    def record(self, replies: Sequence[Reply], start_ns: int, now_ns: int) -> None:
        """These replies leave now, of an execution that began at `start_ns`."""
        for reply in replies:
            index, before_ns = self._begun.get(reply.request, (0, start_ns))
            if index < _LIMIT:
                counters = self.by_index.get(index)
                if counters is None:
                    counters = self.by_index[index] = ResponseCounters()
                counters.add(reply, max(0, now_ns - before_ns))
            if reply.final:
                self._begun.pop(reply.request, None)
            else:
                self._begun[reply.request] = index + 1, now_ns

    def merge(self, other: "ResponseStatistics") -> None:
        """Count what `other` has counted as well."""
        for index, counters in other.by_index.items():
            self.by_index.setdefault(index, ResponseCounters()).merge(counters)
