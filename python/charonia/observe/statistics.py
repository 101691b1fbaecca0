"""Counters of one model version, as Triton's statistics extension defines them, and latency histograms.

One lock, taken once for each executed batch and once for each failure. All durations are nanoseconds.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from charonia.core.errors import FailureReason
from charonia.core.request import InferRequest, Reply

# From the cost of one cheap request (0.1 ms) to a slow generation (60 s), about two a decade.
LATENCY_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_BOUNDS_NS = tuple(int(bound * 1e9) for bound in LATENCY_BOUNDS_S)


@dataclass(slots=True)
class Duration:
    """How often, and how long in all."""

    count: int = 0
    ns: int = 0


@dataclass(slots=True)
class BatchStatistics:
    """Executions of one batch size."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)


@dataclass(slots=True)
class Histogram:
    """Counts by upper bound (the last is +Inf), not cumulative; `sum_ns` over all observations."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS_NS) + 1))
    sum_ns: int = 0

    def observe(self, ns: int, times: int = 1) -> None:
        self.counts[bisect_left(_BOUNDS_NS, ns)] += times
        self.sum_ns += ns * times


@dataclass(slots=True)
class Execution:
    """The stamps of one executed batch, monotonic nanoseconds, and its rows along the batch dimension."""

    rows: int
    compute_start_ns: int
    input_end_ns: int
    output_start_ns: int
    end_ns: int


class ModelStatistics:
    """Everything counted for one model version. Read it under `lock`, or accept values of neighbouring moments."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
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

    def record_execution(self, run: Execution) -> None:
        """One batch was executed, whether or not its requests succeeded."""
        with self.lock:
            self.execution_count += 1
            self.last_inference_ms = time.time_ns() // 1_000_000
            batch = self.batches.get(run.rows)
            if batch is None:
                batch = self.batches[run.rows] = BatchStatistics()
            _add(batch.compute_input, 1, run.input_end_ns - run.compute_start_ns)
            _add(batch.compute_infer, 1, run.output_start_ns - run.input_end_ns)
            _add(batch.compute_output, 1, run.end_ns - run.output_start_ns)

    def record_replies(self, replies: Sequence[Reply], run: Execution) -> None:
        """Final replies of one batch: successes add their durations, errors count as failures of the backend."""
        end_ns, start_ns = run.end_ns, run.compute_start_ns
        succeeded = rows = queue_ns = total_ns = 0
        with self.lock:
            queue_latency, total_latency = self.queue_latency, self.total_latency
            for reply in replies:
                request = reply.request
                if reply.error is not None:
                    self._fail(reply.error.failure_reason, end_ns - request.arrival_ns)
                    continue
                waited, total = start_ns - request.queue_start_ns, end_ns - request.arrival_ns
                succeeded += 1
                rows += request.batch_size
                queue_ns += waited
                total_ns += total
                queue_latency.observe(waited)
                total_latency.observe(total)
            if not succeeded:
                return
            self.inference_count += rows
            self.compute_latency.observe(end_ns - start_ns, succeeded)
            _add(self.success, succeeded, total_ns)
            _add(self.queue, succeeded, queue_ns)
            _add(self.compute_input, succeeded, (run.input_end_ns - start_ns) * succeeded)
            _add(self.compute_infer, succeeded, (run.output_start_ns - run.input_end_ns) * succeeded)
            _add(self.compute_output, succeeded, (end_ns - run.output_start_ns) * succeeded)

    def record_failure(self, request: InferRequest, reason: str, now_ns: int) -> None:
        """A request that the queue accepted or refused ended before it was executed."""
        with self.lock:
            self._fail(reason, now_ns - request.arrival_ns)

    def _fail(self, reason: str, duration_ns: int) -> None:
        self.failures[reason] += 1
        _add(self.fail, 1, duration_ns)


def _add(duration: Duration, count: int, ns: int) -> None:
    duration.count += count
    duration.ns += ns
