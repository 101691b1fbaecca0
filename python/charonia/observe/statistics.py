"""Counters of one model version, as Triton's statistics extension defines them, and latency histograms.

One lock, taken once for each executed batch and once for each failure. All durations are nanoseconds.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from charonia.core.errors import CharoniaError, FailureReason
from charonia.core.request import InferRequest, Reply
from charonia.observe.durations import Duration
from charonia.observe.first_response import FirstResponses, bounds_of
from charonia.observe.latency import FINE_BOUNDS_NS, Histogram
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.responses import ResponseStatistics
from charonia.observe.stamps import Stamps
from charonia.observe.summaries import LatencySummaries

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


@dataclass(slots=True)
class BatchStatistics:
    """Executions of one batch size: the three parts of computing, each by number of executions."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)

    def add(self, count: int, input_ns: int, infer_ns: int, output_ns: int) -> None:
        self.compute_input.add(count, input_ns)
        self.compute_infer.add(count, infer_ns)
        self.compute_output.add(count, output_ns)

    def merge(self, other: "BatchStatistics") -> None:
        """Count what `other` has counted as well."""
        for mine, its in (
            (self.compute_input, other.compute_input),
            (self.compute_infer, other.compute_infer),
            (self.compute_output, other.compute_output),
        ):
            mine.add(its.count, its.ns)


class ModelStatistics:
    """Everything counted for one model version. Read it under `lock`, or accept values of neighbouring moments.

    Args:
        summaries, first_responses: None where nobody asked for them.
        responses: None for models that are not decoupled.
    """

    def __init__(
        self,
        summaries: LatencySummaries | None = None,
        first_responses: FirstResponses | None = None,
        responses: ResponseStatistics | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.summaries = summaries
        self.first_responses = first_responses
        self.responses = responses
        self.inference_count = 0
        self.execution_count = 0
        self.last_inference_ms = 0
        self.success = Duration()
        self.fail = Duration()
        self.queue = Duration()
        self.compute_input = Duration()
        self.compute_infer = Duration()
        self.compute_output = Duration()
        self.cache_hit = Duration()
        self.cache_miss = Duration()
        self.batches: dict[int, BatchStatistics] = {}
        self.failures: dict[str, int] = dict.fromkeys(FailureReason.ALL, 0)
        self.queue_latency = Histogram()
        self.compute_latency = Histogram()
        self.total_latency = Histogram()
        self.load_duration_ns = 0

    @property
    def counts_each(self) -> bool:
        """Whether something here looks at each request and can't be told of several in sum."""
        return self.summaries is not None or self.first_responses is not None

    def record_batch(self, stamps: Stamps, rows: int, replies: Sequence[Reply]) -> None:
        """A batch of `rows` rows along the batch dimension was executed; these of its requests got final replies."""
        with self.lock:
            self.execution_count += 1
            self.last_inference_ms = time.time_ns() // 1_000_000
            batch = self.batches.get(rows)
            if batch is None:
                batch = self.batches[rows] = BatchStatistics()
            batch.add(1, stamps.input_ns, stamps.infer_ns, stamps.output_ns)
            self._add_replies(stamps, replies)

    def record_later(self, stamps: Stamps, replies: Sequence[Reply]) -> None:
        """Further requests of a batch that is counted already got final replies."""
        with self.lock:
            self._add_replies(stamps, replies)

    def record_responses(self, replies: Sequence[Reply], now_ns: int) -> None:
        """These replies leave now, final or not. Need not be called where there is no `first_responses`."""
        if self.first_responses is not None:
            with self.lock:
                self.first_responses.record(replies, now_ns)

    def record_streamed(self, start_ns: int, now_ns: int, replies: Sequence[Reply]) -> None:
        """These replies of a batch leave now, final or not. Need not be called where there is no `responses`.

        Args:
            start_ns: when the execution of the batch began.
        """
        if self.responses is not None:
            with self.lock:
                self.responses.record(replies, start_ns, now_ns)

    def _add_replies(self, stamps: Stamps, replies: Sequence[Reply]) -> None:
        """Successes add their durations; errors count as failures."""
        start_ns, end_ns = stamps.compute_start_ns, stamps.end_ns
        queue_counts, total_counts = self.queue_latency.counts, self.total_latency.counts
        succeeded = rows = queue_ns = total_ns = 0
        for reply in replies:
            request = reply.request
            if reply.error is not None:
                self._fail(_reason_of(reply.error, request), end_ns - request.arrival_ns)
                continue
            waited, total = start_ns - request.queue_start_ns, end_ns - request.arrival_ns
            succeeded += 1
            rows += request.batch_size
            queue_ns += waited
            total_ns += total
            queue_counts[bisect_left(FINE_BOUNDS_NS, waited)] += 1
            total_counts[bisect_left(FINE_BOUNDS_NS, total)] += 1
        if not succeeded:
            return
        self.inference_count += rows
        self.queue_latency.sum_ns += queue_ns
        self.total_latency.sum_ns += total_ns
        self.compute_latency.observe(end_ns - start_ns, succeeded)
        self.success.add(succeeded, total_ns)
        self.queue.add(succeeded, queue_ns)
        self.compute_input.add(succeeded, stamps.input_ns * succeeded)
        self.compute_infer.add(succeeded, stamps.infer_ns * succeeded)
        self.compute_output.add(succeeded, stamps.output_ns * succeeded)
        if self.summaries is not None:
            self.summaries.record(stamps, [reply.request for reply in replies if reply.error is None])

    def record_cache_hit(self, request: InferRequest, start_ns: int, end_ns: int) -> None:
        """A request was answered by the response cache, which took from `start_ns` to `end_ns`: no inference counts."""
        total_ns, lookup_ns = end_ns - request.arrival_ns, end_ns - start_ns
        with self.lock:
            self.success.add(1, total_ns)
            self.queue.count += 1
            self.cache_hit.add(1, lookup_ns)
            self.queue_latency.observe(0)
            self.total_latency.observe(total_ns)
            if self.summaries is not None:
                self.summaries.record_hit(lookup_ns, end_ns)
            if self.first_responses is not None:
                self.first_responses.observe(total_ns)

    def record_cache_hits(self, count: int, total_ns: int, lookup_ns: int) -> None:
        """So many requests were answered by the front end with what the response cache has, within `total_ns` from
        arrival to answer in sum, which were alike. Not where there are summaries or first responses: those count each.
        """
        with self.lock:
            self.success.add(count, total_ns)
            self.queue.count += count
            self.cache_hit.add(count, lookup_ns)
            self.queue_latency.observe(0, count)
            self.total_latency.observe(total_ns // count, count)

    def record_cache_miss(self, lookup_ns: int, insertion_ns: int, now_ns: int) -> None:
        """The response to a request that has been counted was given to the response cache. The request took so much
        longer."""
        with self.lock:
            self.success.ns += insertion_ns
            self.cache_miss.add(1, lookup_ns + insertion_ns)
            if self.summaries is not None:
                self.summaries.record_miss(lookup_ns + insertion_ns, now_ns)

    def record_failure(self, request: InferRequest, reason: str, now_ns: int) -> None:
        """A request that the queue accepted or refused ended before it was executed."""
        with self.lock:
            self._fail(reason, now_ns - request.arrival_ns)
            if self.first_responses is not None and request.queue_start_ns:  # it was accepted
                self.first_responses.observe(now_ns - request.arrival_ns)

    def record_step_failure(self, request: InferRequest, now_ns: int) -> None:
        """A step of an ensemble failed: as in Triton that counts beside the failure of the ensemble's own request."""
        with self.lock:
            self._fail(FailureReason.OTHER, now_ns - request.arrival_ns)

    def _fail(self, reason: str, duration_ns: int) -> None:
        self.failures[reason] += 1
        self.fail.add(1, duration_ns)

    def add(self, other: "ModelStatistics") -> None:
        """Count what `other` has counted as well, but for its summaries and first responses."""
        with other.lock:
            self.inference_count += other.inference_count
            self.execution_count += other.execution_count
            self.last_inference_ms = max(self.last_inference_ms, other.last_inference_ms)
            for name in _DURATIONS:
                duration = getattr(other, name)
                getattr(self, name).add(duration.count, duration.ns)
            for reason, count in other.failures.items():
                self.failures[reason] += count
            for rows, batch in other.batches.items():
                self.batches.setdefault(rows, BatchStatistics()).merge(batch)
            self.queue_latency.merge(other.queue_latency)
            self.compute_latency.merge(other.compute_latency)
            self.total_latency.merge(other.total_latency)
            if other.responses is not None:
                self.responses = self.responses or ResponseStatistics()
                self.responses.merge(other.responses)


_DURATIONS = (
    "success",
    "fail",
    "queue",
    "compute_input",
    "compute_infer",
    "compute_output",
    "cache_hit",
    "cache_miss",
)


def new_statistics(options: MetricsOptions, config: "ModelConfig") -> ModelStatistics:
    """For one model version (on one GPU): with what `--metrics-config` and its own configuration ask for."""
    return ModelStatistics(
        LatencySummaries() if options.summary_latencies else None,
        FirstResponses(bounds_of(config)) if options.histogram_latencies else None,
        ResponseStatistics() if config.model_transaction_policy.decoupled else None,
    )


def _reason_of(error: CharoniaError, request: InferRequest) -> str:
    """Whatever a model answers with, it is a failure of the model, unless the client had gone before."""
    cancelled = request.cancelled and error.failure_reason == FailureReason.CANCELED
    return FailureReason.CANCELED if cancelled else FailureReason.BACKEND
