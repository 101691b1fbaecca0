"""What `/metrics` answers. One `Metrics` for each server; everything is read when it is asked for."""

from collections.abc import Callable, Sequence
from typing import Protocol

from charonia.core.clock import Clock
from charonia.observe import cache, cpu, gpu, model_metrics
from charonia.observe.custom_metrics import CustomMetrics
from charonia.observe.exposition import Exposition
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.model_metrics import MeasuredModel, write_models

PINNED_NAMES = ("nv_pinned_memory_pool_total_bytes", "nv_pinned_memory_pool_used_bytes")
READY_NAME = "charonia_server_ready"
OWN_NAMES = frozenset((READY_NAME, *model_metrics.NAMES, *cache.NAMES, *cpu.NAMES, *gpu.NAMES, *PINNED_NAMES))
"""The families of the server itself; models can't define others under these names."""


class MetricWriter(Protocol):
    """A part of the output: CPU, GPUs, a cache."""

    def write(self, out: Exposition) -> None: ...


class Metrics:
    """Writes the families of all models, of the host, and those that models defined themselves.

    Args:
        models: gives the loaded model versions, by name and version.
        ready: whether the server is, as `/v2/health/ready` says.
        parts: further families, in order (`CpuMetrics`, `GpuMetrics`).
    """

    def __init__(
        self,
        models: Callable[[], Sequence[MeasuredModel]],
        ready: Callable[[], bool],
        options: MetricsOptions,
        clock: Clock,
        parts: Sequence[MetricWriter] = (),
    ) -> None:
        self.custom = CustomMetrics(OWN_NAMES)
        self._models = models
        self._ready = ready
        self._options = options
        self._clock = clock
        self._parts = tuple(parts)

    def text(self) -> str:
        """The Prometheus text format."""
        out = Exposition()
        out.single(
            READY_NAME, "gauge", "Whether the server is ready, 1 or 0: alerts need no second probe", int(self._ready())
        )
        write_models(out, self._models(), self._options, self._clock.now_ns())
        # There is no pool of pinned memory; dashboards for Triton expect the families.
        out.single(PINNED_NAMES[0], "gauge", "Size of the pinned memory pool in bytes", 0)
        out.single(PINNED_NAMES[1], "gauge", "Bytes of the pinned memory pool in use", 0)
        for part in self._parts:
            part.write(out)
        self.custom.write(out)
        return out.text()
