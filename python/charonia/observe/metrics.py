"""What `/metrics` answers. One `Metrics` for each server; everything is read when it is asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from charonia.core.errors import InvalidArgumentError
from charonia.observe import cpu, gpu, model_metrics
from charonia.observe.custom_metrics import CustomMetrics
from charonia.observe.exposition import Exposition
from charonia.observe.model_metrics import Labels, MeasuredModel, no_labels, write_models

PINNED_NAMES = ("nv_pinned_memory_pool_total_bytes", "nv_pinned_memory_pool_used_bytes")
OWN_NAMES = frozenset((*model_metrics.NAMES, *cpu.NAMES, *gpu.NAMES, *PINNED_NAMES))
"""The families of the server itself; models can't define others under these names."""


class MetricWriter(Protocol):
    """A part of the output: CPU, GPUs, a cache."""

    def write(self, out: Exposition) -> None: ...


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """`--metrics-config`. Summaries and the first-response histogram are accepted, and not written yet."""

    counter_latencies: bool = True
    summary_latencies: bool = False
    histogram_latencies: bool = False
    summary_quantiles: str = ""


class Metrics:
    """Writes the families of all models, of the host, and those that models defined themselves.

    Args:
        models: gives the loaded model versions, by name and version.
        parts: further families, in order (`CpuMetrics`, `GpuMetrics`).
        pinned_memory: (total bytes, used bytes) of the pinned memory pool.
        labels: further labels of a model version.
    """

    def __init__(
        self,
        models: Callable[[], Sequence[MeasuredModel]],
        options: MetricsOptions,
        parts: Sequence[MetricWriter] = (),
        pinned_memory: Callable[[], tuple[int, int]] = lambda: (0, 0),
        labels: Labels = no_labels,
    ) -> None:
        self.custom = CustomMetrics(OWN_NAMES)
        self._models = models
        self._options = options
        self._parts = tuple(parts)
        self._pinned_memory = pinned_memory
        self._labels = labels

    def text(self) -> str:
        """The Prometheus text format."""
        out = Exposition()
        write_models(out, self._models(), counter_latencies=self._options.counter_latencies, labels=self._labels)
        total, used = self._pinned_memory()
        out.single(PINNED_NAMES[0], "gauge", "Size of the pinned memory pool in bytes", total)
        out.single(PINNED_NAMES[1], "gauge", "Bytes of the pinned memory pool in use", used)
        for part in self._parts:
            part.write(out)
        self.custom.write(out)
        return out.text()


def parse_metrics_config(settings: Mapping[str, str]) -> MetricsOptions:
    """From the values of `--metrics-config=<name>=<value>`.

    Raises:
        InvalidArgumentError: an unknown name, or a value that is not true or false.
    """
    flags = {"counter_latencies": True, "summary_latencies": False, "histogram_latencies": False}
    quantiles = ""
    for name, value in settings.items():
        if name == "summary_quantiles":
            quantiles = value
        elif name in flags:
            flags[name] = _flag(name, value)
        else:
            raise InvalidArgumentError(
                f"--metrics-config has no setting '{name}': expected one of {', '.join((*flags, 'summary_quantiles'))}"
            )
    return MetricsOptions(**flags, summary_quantiles=quantiles)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"--metrics-config {name} is true or false, got '{value}'")
    return value.lower() == "true"
