"""The metrics that the options of a server ask for."""

from collections.abc import Callable, Sequence

from charonia.cache.local import LocalCache
from charonia.cache.store import Store
from charonia.core.clock import Clock
from charonia.core.log import Log
from charonia.observe.cache import CacheMetrics
from charonia.observe.cpu import CpuMetrics
from charonia.observe.gpu import open_gpu_metrics
from charonia.observe.metrics import Metrics, MetricWriter
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.model_metrics import MeasuredModel
from charonia.options import ServerOptions


def open_metrics(
    options: ServerOptions,
    families: MetricsOptions,
    gpu_uuids: Sequence[str],
    models: Callable[[], Sequence[MeasuredModel]],
    ready: Callable[[], bool],
    clock: Clock,
    log: Log,
    cache: Store | None = None,
) -> Metrics:
    """The metrics, ready to be asked.

    Args:
        families: `--metrics-config`, read.
        models, ready: as `Metrics` takes them.
        cache: of the server's responses; only one in this process has families of its own.
    """
    interval_ns = int(options.metrics_interval_ms * 1e6)
    parts: list[MetricWriter] = []
    if isinstance(cache, LocalCache):
        parts.append(CacheMetrics(cache.counters))
    if options.allow_metrics and options.allow_cpu_metrics:
        parts.append(CpuMetrics(clock, interval_ns))
    gpus = open_gpu_metrics(gpu_uuids, clock, interval_ns, log) if measures_gpus(options) else None
    if gpus is not None:
        parts.append(gpus)
    return Metrics(models, ready, families, clock, parts)


def measures_gpus(options: ServerOptions) -> bool:
    """Whether there is a family for each GPU, and each GPU's instances are counted by themselves."""
    return options.allow_metrics and options.allow_gpu_metrics
