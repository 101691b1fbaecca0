"""The statistics extension: what each model version has counted since it was loaded."""

from collections.abc import Sequence
from dataclasses import dataclass

from charonia.control.protocols import Models, VersionView
from charonia.core.errors import CharoniaError
from charonia.core.request import ANY_VERSION
from charonia.core.text import shown
from charonia.observe.durations import Duration
from charonia.observe.responses import RESPONSE_COUNTERS, ResponseStatistics
from charonia.observe.statistics import BatchStatistics, ModelStatistics


@dataclass(frozen=True, slots=True)
class DurationRecord:
    count: int
    ns: int


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The executions with `batch_size` rows."""

    batch_size: int
    compute_input: DurationRecord
    compute_infer: DurationRecord
    compute_output: DurationRecord


@dataclass(frozen=True, slots=True)
class StatisticsRecord:
    """The counters of one model version at one moment. `inference` has the protocol's names and order.

    Attributes:
        responses: of decoupled models, by the index of the response in its request; the protocol's names and order.
    """

    name: str
    version: str
    last_inference_ms: int
    inference_count: int
    execution_count: int
    inference: dict[str, DurationRecord]
    batches: tuple[BatchRecord, ...]
    responses: dict[int, dict[str, DurationRecord]]


class Statistics:
    """Statistics of one model version, of one model, or of all."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def read(self, name: str = "", version: int = ANY_VERSION) -> tuple[StatisticsRecord, ...]:
        """By name and version; all models for the name "".

        Raises as `ModelDirectory.find`, with the words that clients of the statistics look for at the end.
        """
        return tuple(_record(view) for view in self._views(name, version))

    def _views(self, name: str, version: int) -> Sequence[VersionView]:
        models = self._models()
        if not name:
            return models.loaded()
        try:
            return models.versions(name) if version == ANY_VERSION else (models.find(name, version),)
        except CharoniaError as error:
            who = f"model '{shown(name)}'"
            what = f"{who} is not available" if version == ANY_VERSION else f"model version is not available for {who}"
            raise type(error)(f"{error}; the requested {what}, so it has no statistics") from None


def _record(view: VersionView) -> StatisticsRecord:
    total = counted(view)
    with total.lock:
        return StatisticsRecord(
            view.name,
            str(view.version),
            total.last_inference_ms,
            total.inference_count,
            total.execution_count,
            {
                "success": _duration(total.success),
                "fail": _duration(total.fail),
                "queue": _duration(total.queue),
                "compute_input": _duration(total.compute_input),
                "compute_infer": _duration(total.compute_infer),
                "compute_output": _duration(total.compute_output),
                "cache_hit": _duration(total.cache_hit),
                "cache_miss": _duration(total.cache_miss),
            },
            tuple(_batch(size, total.batches[size]) for size in sorted(total.batches)),
            _responses(total.responses),
        )


def counted(view: VersionView) -> ModelStatistics:
    """Of all instances together, wherever they run."""
    if not view.gpu_statistics:
        return view.statistics
    total = ModelStatistics()
    for part in (view.statistics, *view.gpu_statistics.values()):
        total.add(part)
    return total


def _responses(counted: ResponseStatistics | None) -> dict[int, dict[str, DurationRecord]]:
    if counted is None:
        return {}
    return {
        index: {name: _duration(getattr(counters, name)) for name in RESPONSE_COUNTERS}
        for index, counters in sorted(counted.by_index.items())
    }


def _batch(size: int, batch: BatchStatistics) -> BatchRecord:
    return BatchRecord(
        size, _duration(batch.compute_input), _duration(batch.compute_infer), _duration(batch.compute_output)
    )


def _duration(duration: Duration) -> DurationRecord:
    return DurationRecord(duration.count, duration.ns)
