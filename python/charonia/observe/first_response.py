"""How long the first response to a request took, for `--metrics-config=histogram_latencies=true`."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from charonia.config.metric_control import FIRST_RESPONSE, buckets_of
from charonia.core.request import InferRequest, Reply

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

DEFAULT_BOUNDS_MS = (100.0, 500.0, 2000.0, 5000.0)


class FirstResponses:
    """A histogram over all requests that a queue accepted, errors too. Used under the lock of the statistics.

    Attributes:
        bounds_ms: upper bounds, ascending.
        counts: by bucket, not cumulative; the last one is without a bound.
        sum_ns: of all observations.
    """

    __slots__ = ("_begun", "bounds_ms", "counts", "sum_ns")

    def __init__(self, bounds_ms: Sequence[float] = DEFAULT_BOUNDS_MS) -> None:
        self.bounds_ms = tuple(bounds_ms)
        self.counts = [0] * (len(self.bounds_ms) + 1)
        self.sum_ns = 0
        self._begun: WeakSet[InferRequest] = WeakSet()  # answered, and more answers follow

    def record(self, replies: Sequence[Reply], now_ns: int) -> None:
        """These replies leave now; only the first one to each request counts."""
        for reply in replies:
            request = reply.request
            if request not in self._begun:
                self.observe(now_ns - request.arrival_ns)
            if reply.final:
                self._begun.discard(request)
            else:
                self._begun.add(request)

    def observe(self, duration_ns: int) -> None:
        self.counts[bisect_left(self.bounds_ms, duration_ns / 1e6)] += 1
        self.sum_ns += duration_ns


def bounds_of(config: "ModelConfig") -> Sequence[float]:
    """The buckets that the model's configuration asks for, or Triton's."""
    return buckets_of(config, FIRST_RESPONSE) or DEFAULT_BOUNDS_MS
