"""What the live page shows: every model at one moment, as plain counts. Rates and percentiles are the viewer's."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charonia.control.protocols import IndexEntry, InstanceView, Models, ServerView, VersionView
from charonia.control.statistics import counted
from charonia.core.clock import Clock
from charonia.observe.latency import FINE_BOUNDS_NS
from charonia.observe.statistics import BatchStatistics

BOUNDS_MS = tuple(bound / 1e6 for bound in FINE_BOUNDS_NS)


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """One instance: `busy` while it executes, not `alive` while its process is being started again."""

    name: str
    device: str
    busy: bool
    alive: bool


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """Totals of a model version since it was loaded.

    Attributes:
        success, failed: requests that were answered; `failed` by reason.
        queue_ms: how long the successful ones waited, in sum.
        executions, busy_ms: executions of the model, and their time in sum over all instances.
        latency: successful requests by `LiveSnapshot.bounds_ms` and +Inf, from arrival to answer; not cumulative.
        batches: executions by rows.
        pending: requests that wait now.
        batch_delay_us: the delay chosen for a latency target; None without one.
    """

    success: int
    failed: Mapping[str, int]
    inferences: int
    queue_ms: float
    executions: int
    busy_ms: float
    cache_hits: int
    cache_misses: int
    latency: Sequence[int]
    batches: Mapping[int, int]
    pending: int
    batch_delay_us: float | None


@dataclass(frozen=True, slots=True)
class LiveModel:
    """A line of the repository index; `counts` is None for what is not loaded.

    Attributes:
        version, state: "" where there is none.
        platform: its platform, else its backend.
        max_batch_size: 0 for models that do not batch.
        decoupled: answers any number of times.
        load_ms: how long its load took; another one with each load.
    """

    name: str
    version: str
    state: str
    reason: str
    ready: bool = False
    platform: str = ""
    max_batch_size: int = 0
    decoupled: bool = False
    load_ms: float = 0.0
    instances: Sequence[LiveInstance] = ()
    counts: LiveCounts | None = None


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """The server at one moment.

    Attributes:
        at_ms: when, in milliseconds of a clock that never goes back; `unix_ms` of the day's clock.
        uptime_s: since it was started.
    """

    id: str
    live: bool
    ready: bool
    at_ms: float
    unix_ms: int
    uptime_s: float
    bounds_ms: Sequence[float]
    models: Sequence[LiveModel]


class Live:
    """Reads the present state. Cheap enough to be asked each second by several viewers: it only copies counts.

    Args:
        clock: its present time is that of the server's start.
    """

    def __init__(self, server: ServerView, models: Models, clock: Clock) -> None:
        self._server = server
        self._models = models
        self._clock = clock
        self._start_ns = clock.now_ns()

    def read(self) -> LiveSnapshot:
        directory = self._models()
        loaded = {(view.name, view.version): view for view in directory.loaded()}
        now_ns = self._clock.now_ns()
        return LiveSnapshot(
            self._server.id,
            self._server.live,
            self._server.ready,
            now_ns / 1e6,
            time.time_ns() // 1_000_000,
            (now_ns - self._start_ns) / 1e9,
            BOUNDS_MS,
            [_model(entry, loaded.get((entry.name, entry.version or 0))) for entry in directory.index()],
        )


def _model(entry: IndexEntry, view: VersionView | None) -> LiveModel:
    version = "" if entry.version is None else str(entry.version)
    if view is None:
        return LiveModel(entry.name, version, entry.state or "", entry.reason)
    config = view.config
    return LiveModel(
        entry.name,
        version,
        entry.state or "",
        entry.reason,
        view.live_instances > 0,
        config.platform or config.backend,
        config.max_batch_size,
        config.model_transaction_policy.decoupled,
        view.statistics.load_duration_ns / 1e6,
        [_instance(each) for each in view.instances],
        _counts(view),
    )


def _instance(instance: InstanceView) -> LiveInstance:
    return LiveInstance(instance.name, instance.device, instance.is_busy, instance.alive)


def _counts(view: VersionView) -> LiveCounts:
    total = counted(view)
    with total.lock:
        busy_ns = sum(_busy_ns(part) for part in total.batches.values())
        return LiveCounts(
            total.success.count,
            dict(total.failures),
            total.inference_count,
            total.queue.ns / 1e6,
            total.execution_count,
            busy_ns / 1e6,
            total.cache_hit.count,
            total.cache_miss.count,
            tuple(total.total_latency.counts),
            {rows: part.compute_infer.count for rows, part in sorted(total.batches.items())},
            view.pending_count,
            view.batch_delay_us,
        )


def _busy_ns(batch: BatchStatistics) -> int:
    return batch.compute_input.ns + batch.compute_infer.ns + batch.compute_output.ns
