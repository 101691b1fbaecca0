"""The metric families that are counted for each model version, with Triton's names and labels.

They are read out of the statistics when somebody asks, so a request costs nothing beyond its plain counters. Every
sample is there from load on, with the value 0.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from charonia.observe.exposition import Exposition, label_text
from charonia.observe.statistics import LATENCY_BOUNDS_S, Histogram, ModelStatistics

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class MeasuredModel(Protocol):
    """One loaded model version, as metrics see it.

    `pending_count` is the number of requests that wait for execution now.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def statistics(self) -> ModelStatistics: ...
    @property
    def pending_count(self) -> int: ...
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
FAILURES = ("nv_inference_request_failure", "Requests answered with an error, by the reason of the failure")
PENDING = ("nv_inference_pending_request_count", "Requests waiting for execution now")
LOAD = ("nv_model_load_duration_secs", "Seconds that loading the model version took")
LATENCY = ("charonia_request_latency_seconds", "Latency of successful requests: waiting, computing, and in all")

NAMES = tuple(name for name, _ in (*COUNTS, *DURATIONS, FAILURES, PENDING, LOAD, LATENCY))


class _Reading(NamedTuple):
    """The numbers of one model version at one moment, in the order of the tables above."""

    labels: str
    common: Mapping[str, str]
    counts: tuple[int, ...]
    durations_us: tuple[int, ...]
    failures: dict[str, int]
    pending: int
    load_s: float
    phases: tuple[tuple[str, tuple[int, ...], int], ...]


Labels = Callable[[MeasuredModel], Mapping[str, str]]
"""Further labels of a model version, beside `model`, `version` and its metric tags: `gpu_uuid`."""


def no_labels(model: MeasuredModel) -> Mapping[str, str]:
    return {}


def write_models(
    out: Exposition, models: Sequence[MeasuredModel], *, counter_latencies: bool = True, labels: Labels = no_labels
) -> None:
    """Write all families for `models`. `counter_latencies` False leaves out the `_duration_us` counters."""
    readings = [_read(model, labels(model)) for model in models]
    for at, (name, text) in enumerate(COUNTS):
        out.family(name, "counter", text)
        for reading in readings:
            out.sample(name, reading.labels, reading.counts[at])
    _write_failures(out, readings)
    for at, (name, text) in enumerate(DURATIONS if counter_latencies else ()):
        out.family(name, "counter", text)
        for reading in readings:
            out.sample(name, reading.labels, reading.durations_us[at])
    out.family(PENDING[0], "gauge", PENDING[1])
    for reading in readings:
        out.sample(PENDING[0], reading.labels, reading.pending)
    out.family(LOAD[0], "gauge", LOAD[1])
    for reading in readings:
        out.sample(LOAD[0], reading.labels, reading.load_s)
    _write_latency(out, readings)


def _write_failures(out: Exposition, readings: Sequence[_Reading]) -> None:
    name, text = FAILURES
    out.family(name, "counter", text)
    for reading in readings:
        for reason, count in reading.failures.items():
            out.sample(name, label_text({**reading.common, "reason": reason}), count)


def _write_latency(out: Exposition, readings: Sequence[_Reading]) -> None:
    name, text = LATENCY
    out.family(name, "histogram", text)
    for reading in readings:
        for phase, counts, sum_ns in reading.phases:
            labels = label_text({**reading.common, "phase": phase})
            out.histogram(name, labels, LATENCY_BOUNDS_S, counts, sum_ns / 1e9)


def _read(model: MeasuredModel, labels: Mapping[str, str]) -> _Reading:
    tags = {f"_{_NOT_IN_LABELS.sub('_', key)}": value for key, value in model.config.metric_tags.items()}
    common = {"model": model.name, "version": str(model.version), **tags, **labels}
    counted = model.statistics
    pending = model.pending_count
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
            dict(counted.failures),
            pending,
            counted.load_duration_ns / 1e9,
            (
                _phase("queue", counted.queue_latency),
                _phase("compute", counted.compute_latency),
                _phase("total", counted.total_latency),
            ),
        )


def _phase(name: str, histogram: Histogram) -> tuple[str, tuple[int, ...], int]:
    return name, tuple(histogram.counts), histogram.sum_ns
