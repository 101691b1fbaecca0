"""`pb_utils.MetricFamily` and its metrics: numbers of a model's own on the server's metrics page."""

from __future__ import annotations

from enum import Enum
from typing import Any, Sequence

from .errors import TritonModelException
from .runtime import Runtime

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class MetricKind(str, Enum):
    COUNTER = COUNTER
    GAUGE = GAUGE
    HISTOGRAM = HISTOGRAM


_ALLOWED = {"increment": (COUNTER, GAUGE), "set": (GAUGE,), "observe": (HISTOGRAM,), "value": (COUNTER, GAUGE)}


class _Lifetime:
    """What the metrics of one MetricFamily object know of it without keeping it alive."""

    def __init__(self) -> None:
        self.alive = True
        self.keys: set[int] = set()


class Metric:
    """One metric of a family. Made by `MetricFamily.Metric`; disappears when its last holder drops it.

    It can be used as long as the model keeps the MetricFamily object that made it, and raises TritonModelException
    from then on.
    """

    def __init__(self, runtime: Runtime, key: int, family: str, kind: str, lifetime: _Lifetime) -> None:
        self._runtime = runtime
        self._key = key
        self._family = family
        self._kind = kind
        self._lifetime = lifetime
        lifetime.keys.add(key)

    def increment(self, value: float) -> None:
        """Counters take amounts of at least 0, gauges any."""
        self._allow("increment")
        if self._kind == COUNTER and not value >= 0:
            raise TritonModelException(f"counter '{self._family}' can only grow, it can't be incremented by {value}")
        self._runtime.cast("metric.increment", self._key, float(value))

    def set(self, value: float) -> None:
        """Gauges only."""
        self._allow("set")
        self._runtime.cast("metric.set", self._key, float(value))

    def observe(self, value: float) -> None:
        """Histograms only."""
        self._allow("observe")
        self._runtime.cast("metric.observe", self._key, float(value))

    def value(self) -> float:
        """The present value of a counter or gauge."""
        self._allow("value")
        return float(self._runtime.call("metric.value", self._key))

    def _allow(self, operation: str) -> None:
        if self._kind not in _ALLOWED[operation]:
            raise TritonModelException(
                f"'{operation}' is not for metrics of kind {self._kind}, which '{self._family}' is"
            )
        if not self._lifetime.alive:
            raise TritonModelException(
                "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. "
                f"'{operation}' on a metric of '{self._family}': keep the MetricFamily as long as its metrics"
            )

    def __del__(self) -> None:
        try:
            self._lifetime.keys.discard(self._key)
            self._runtime.cast("metric.remove", self._key)
        except Exception:  # the server has gone, or the metric was never made
            pass


def make_metric_family(runtime: Runtime) -> Any:
    """The class `MetricFamily` for one model."""

    class MetricFamily:
        """Metrics of one name and kind that differ in their labels. With this object its metrics go."""

        COUNTER = MetricKind.COUNTER
        GAUGE = MetricKind.GAUGE
        HISTOGRAM = MetricKind.HISTOGRAM

        def __init__(self, name: str, description: str, kind: str) -> None:
            try:
                kind = MetricKind(kind).value
            except ValueError:
                raise TritonModelException(f"metric family '{name}': unknown kind {kind!r}") from None
            self._name = str(name)
            self._kind = kind
            self._key = runtime.call("metric.family", self._name, str(description), kind)
            self._lifetime = _Lifetime()

        def Metric(self, labels: dict[str, str] | None = None, buckets: Sequence[float] | None = None) -> Metric:
            """The metric with these labels; histograms need `buckets`, their ascending upper bounds."""
            texts = {str(key): str(value) for key, value in (labels or {}).items()}
            bounds = None if buckets is None else [float(bound) for bound in buckets]
            key = runtime.call("metric.new", self._key, texts, bounds)
            return Metric(runtime, key, self._name, self._kind, self._lifetime)

        def __del__(self) -> None:
            try:
                self._lifetime.alive = False
                for key in (*self._lifetime.keys, self._key):
                    runtime.cast("metric.remove", key)
            except Exception:  # the server has gone, or the family was never made
                pass

    return MetricFamily
