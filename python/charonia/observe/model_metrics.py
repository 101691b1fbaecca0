"""The metric families that are counted for each model version, with Triton's names and labels.

They are read out of the statistics when somebody asks, so a request costs nothing beyond its plain counters. Every
sample is there from load on, with the value 0.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from charonia.config.metric_control import FIRST_RESPONSE as FIRST_RESPONSE_NAME
from charonia.core.model_id import ModelId
from charonia.observe.exposition import Exposition, label_text
from charonia.observe.latency import LATENCY_BOUNDS_S, Histogram
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.statistics import ModelStatistics

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class MeasuredModel(Protocol):
    """One loaded model version, as metrics see it.

    `statistics` has what was counted by instances on CPUs and in front of all instances, `gpu_statistics` what
    instances on a GPU have counted, by its UUID. `pending_count` is the number of requests that wait for execution now.
    `batch_delay_us` is None for models without a latency target.
    """

    @property
    def id(self) -> ModelId: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def statistics(self) -> ModelStatistics: ...
    @property
    def gpu_statistics(self) -> Mapping[str, ModelStatistics]: ...
    @property
    def pending_count(self) -> int: ...
    @property
    def batch_delay_us(self) -> float | None: ...
    @property
    def config(self) -> "ModelConfig": ...


_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")

COUNTS = (
    ("nv_inference_request_success", "Requests answered with success, whatever their batch size"),
    ("nv_inference_count", "Inferences performed: a request of batch size n counts n"),
    ("nv_inference_exec_count", "Executions of the model: a batch counts once"),
)
DURATIONS = (
    ("nv_inference_request_duration_us", "Microseconds from arrival to answer, sum over successful requests"),
    ("nv_inference_queue_duration_us", "Microseconds spent waiting for execution, sum over successful requests"),
    ("nv_inference_compute_input_duration_us", "Microseconds spent gathering inputs, sum over successful requests"),
    ("nv_inference_compute_infer_duration_us", "Microseconds spent running the model, sum over successful requests"),
    ("nv_inference_compute_output_duration_us", "Microseconds spent splitting outputs, sum over successful requests"),
)
SUMMARIES = (
    ("nv_inference_request_summary_us", "Microseconds from arrival to answer, of successful requests"),
    ("nv_inference_queue_summary_us", "Microseconds spent waiting for execution, of successful requests"),
    ("nv_inference_compute_input_summary_us", "Microseconds spent gathering inputs, of successful requests"),
    ("nv_inference_compute_infer_summary_us", "Microseconds spent running the model, of successful requests"),
    ("nv_inference_compute_output_summary_us", "Microseconds spent splitting outputs, of successful requests"),
)
CACHE_COUNTS = (
    ("nv_cache_num_hits_per_model", "Requests that the response cache answered"),
    ("nv_cache_num_misses_per_model", "Requests that were executed because the response cache had no answer"),
    ("nv_cache_hit_duration_per_model", "Microseconds spent on answering requests out of the response cache"),
    ("nv_cache_miss_duration_per_model", "Microseconds spent on looking up in vain and on keeping the responses"),
)
CACHE_SUMMARIES = (
    ("nv_cache_hit_summary_per_model", "Microseconds spent on answering a request out of the response cache"),
    ("nv_cache_miss_summary_per_model", "Microseconds spent on looking up in vain and on keeping the response"),
)
FAILURES = ("nv_inference_request_failure", "Requests answered with an error, by the reason of the failure")
PENDING = ("nv_inference_pending_request_count", "Requests waiting for execution now")
DELAY = (
    "charonia_batch_delay_us",
    "Microseconds that a request waits for others at most, chosen by its latency target",
)
LOAD = ("nv_model_load_duration_secs", "Seconds that loading the model version took")
FIRST_RESPONSE = (FIRST_RESPONSE_NAME, "Milliseconds from arrival to the first response, errors too")
LATENCY = ("charonia_request_latency_seconds", "Latency of successful requests: waiting, computing, and in all")

_FAMILIES = (*COUNTS, *DURATIONS, *CACHE_COUNTS, *SUMMARIES, *CACHE_SUMMARIES)
NAMES = tuple(name for name, _ in (*_FAMILIES, FAILURES, PENDING, LOAD, DELAY, FIRST_RESPONSE, LATENCY))


class _Summary(NamedTuple):
    """Of one family: values at the quantiles, number and sum of all observations."""

    values: list[float]
    observed: int
    total: int


class _Buckets(NamedTuple):
    """A histogram: upper bounds, counts (not cumulative), and the sum of all observations, in its unit."""

    bounds: Sequence[float]
    counts: tuple[int, ...]
    total: float


class _Reading(NamedTuple):
    """The numbers of one model version (on one GPU) at one moment, in the order of the tables above.

    `cache` and `cache_summaries` are None for models without a response cache.
    """

    labels: str
    common: Mapping[str, str]
    counts: tuple[int, ...]
    durations_us: tuple[int, ...]
    cache: tuple[int, ...] | None
    failures: dict[str, int]
    summaries: tuple[_Summary, ...]
    cache_summaries: tuple[_Summary, ...] | None
    first_response: _Buckets | None
    phases: tuple[tuple[str, _Buckets], ...]


def write_models(out: Exposition, models: Sequence[MeasuredModel], options: MetricsOptions, now_ns: int) -> None:
    """Write all families for `models`, those of latencies as `options` say."""
    readings: list[_Reading] = []
    for model in models:
        common = _labels(model)
        cached = model.config.response_cache.enable
        readings.append(_read(model.statistics, common, options, now_ns, cached))
        for uuid, counted in sorted(model.gpu_statistics.items()):  # a cache is in front of all instances
            readings.append(_read(counted, {**common, "gpu_uuid": uuid}, options, now_ns, cached=False))
    _write_table(out, COUNTS, [(reading.labels, reading.counts) for reading in readings])
    _write_failures(out, readings)
    if options.counter_latencies:
        _write_table(out, DURATIONS, [(reading.labels, reading.durations_us) for reading in readings])
        of_caches = [(reading.labels, reading.cache) for reading in readings if reading.cache is not None]
        _write_table(out, CACHE_COUNTS, of_caches)
    _write_gauges(out, models)
    _write_summaries(out, readings, options.quantiles)
    _write_first_responses(out, readings)
    _write_latency(out, readings)


def _write_table(
    out: Exposition, families: Sequence[tuple[str, str]], rows: Sequence[tuple[str, Sequence[int]]]
) -> None:
    for at, (name, text) in enumerate(families):
        out.family(name, "counter", text)
        for labels, values in rows:
            out.sample(name, labels, values[at])


def _write_failures(out: Exposition, readings: Sequence[_Reading]) -> None:
    name, text = FAILURES
    out.family(name, "counter", text)
    for reading in readings:
        for reason, count in reading.failures.items():
            out.sample(name, label_text({**reading.common, "reason": reason}), count)


def _write_gauges(out: Exposition, models: Sequence[MeasuredModel]) -> None:
    labels = [label_text(_labels(model)) for model in models]
    out.family(PENDING[0], "gauge", PENDING[1])
    for shown, model in zip(labels, models, strict=True):
        out.sample(PENDING[0], shown, model.pending_count)
    out.family(LOAD[0], "gauge", LOAD[1])
    for shown, model in zip(labels, models, strict=True):
        out.sample(LOAD[0], shown, model.statistics.load_duration_ns / 1e9)
    out.family(DELAY[0], "gauge", DELAY[1])
    for shown, model in zip(labels, models, strict=True):
        if model.batch_delay_us is not None:
            out.sample(DELAY[0], shown, model.batch_delay_us)


def _write_summaries(out: Exposition, readings: Sequence[_Reading], quantiles: Sequence[float]) -> None:
    for at, (name, text) in enumerate(SUMMARIES):
        out.family(name, "summary", text)
        for reading in readings:
            # As in Triton: of a model with a cache there is none of whole requests, which are of two kinds.
            if reading.summaries and not (at == 0 and reading.cache is not None):
                out.summary(name, reading.labels, quantiles, *reading.summaries[at])
    for at, (name, text) in enumerate(CACHE_SUMMARIES):
        out.family(name, "summary", text)
        for reading in readings:
            if reading.cache_summaries:
                out.summary(name, reading.labels, quantiles, *reading.cache_summaries[at])


def _write_first_responses(out: Exposition, readings: Sequence[_Reading]) -> None:
    name, text = FIRST_RESPONSE
    out.family(name, "histogram", text)
    for reading in readings:
        if reading.first_response is not None:
            out.histogram(name, reading.labels, *reading.first_response)


def _write_latency(out: Exposition, readings: Sequence[_Reading]) -> None:
    name, text = LATENCY
    out.family(name, "histogram", text)
    for reading in readings:
        for phase, buckets in reading.phases:
            out.histogram(name, label_text({**reading.common, "phase": phase}), *buckets)


def _labels(model: MeasuredModel) -> dict[str, str]:
    tags = {_tag_label(key): value for key, value in model.config.metric_tags.items()}
    namespace = {"namespace": model.id.namespace} if model.id.namespace else {}
    return {"model": model.name, "version": str(model.version), **namespace, **tags}


def _tag_label(key: str) -> str:
    """The tag's key behind one underscore, as Triton's; a page with a label that begins with two can't be read."""
    return f"_{_NOT_IN_LABELS.sub('_', key).lstrip('_')}"


def _read(
    counted: ModelStatistics, common: Mapping[str, str], options: MetricsOptions, now_ns: int, cached: bool
) -> _Reading:
    with counted.lock:
        durations = (
            counted.success,
            counted.queue,
            counted.compute_input,
            counted.compute_infer,
            counted.compute_output,
        )
        return _Reading(
            label_text(common),
            common,
            (counted.success.count, counted.inference_count, counted.execution_count),
            tuple(duration.ns // 1000 for duration in durations),
            _cache_counts(counted) if cached else None,
            dict(counted.failures),
            _summaries(counted, options.quantiles, now_ns),
            _cache_summaries(counted, options.quantiles, now_ns) if cached else None,
            _first_response(counted),
            (
                ("queue", _phase(counted.queue_latency)),
                ("compute", _phase(counted.compute_latency)),
                ("total", _phase(counted.total_latency)),
            ),
        )


def _summaries(counted: ModelStatistics, quantiles: Sequence[float], now_ns: int) -> tuple[_Summary, ...]:
    if counted.summaries is None:
        return ()
    return tuple(_Summary(each.read(quantiles, now_ns), each.count, each.total) for each in counted.summaries.all)


def _cache_counts(counted: ModelStatistics) -> tuple[int, ...]:
    hit, miss = counted.cache_hit, counted.cache_miss
    return hit.count, miss.count, hit.ns // 1000, miss.ns // 1000


def _cache_summaries(counted: ModelStatistics, quantiles: Sequence[float], now_ns: int) -> tuple[_Summary, ...]:
    if counted.summaries is None:
        return ()
    return tuple(_Summary(each.read(quantiles, now_ns), each.count, each.total) for each in counted.summaries.of_cache)


def _first_response(counted: ModelStatistics) -> _Buckets | None:
    """The sum in whole milliseconds, as Triton's."""
    first = counted.first_responses
    return None if first is None else _Buckets(first.bounds_ms, tuple(first.counts), first.sum_ns // 1_000_000)


def _phase(histogram: Histogram) -> _Buckets:
    return _Buckets(LATENCY_BOUNDS_S, histogram.exported(), histogram.sum_ns / 1e9)
