"""From a model's configuration to its scheduler."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from charonia.config.latency_target import LatencyTargetSetting, latency_target
from charonia.core.batching import Strategy
from charonia.core.clock import Clock
from charonia.core.log import Log, SilentLog
from charonia.core.protocols import Bell, Submitter
from charonia.scheduling.base import Scheduler
from charonia.scheduling.delay_plan import LatencyTarget
from charonia.scheduling.forming import BatchRule, DynamicBatching, OneByOne
from charonia.scheduling.latency_target import LatencyTargetBatching
from charonia.scheduling.queue import PriorityLevels, QueuePolicy, TimeoutAction
from charonia.scheduling.queued import QueuedScheduler, Refused
from charonia.scheduling.sequence import Ended, SequenceScheduler
from charonia.scheduling.sequence_controls import SequenceControls
from charonia.scheduling.sequence_direct import DirectLane
from charonia.scheduling.sequence_gate import StartGate
from charonia.scheduling.sequence_lane import Lane, Place
from charonia.scheduling.sequence_oldest import OldestLane
from charonia.scheduling.sequence_table import SequencePlan
from charonia.scheduling.state import StateStore
from charonia.scheduling.strategy import StrategyBatching
from charonia.scheduling.timer import Timer

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelDynamicBatching, ModelQueuePolicy


# Between two steps of a plan, each of which takes about a third of a millisecond.
_PLAN_PAUSE_NS = 3_000_000


@dataclass(frozen=True, slots=True)
class SchedulingAids:
    """What test suites written for Triton steer (`testing_aids.py`); 0 for nothing.

    Attributes:
        start_at: nothing is released until so many requests wait.
        backlog_start_at: nor until so many wait in the backlog of a model with sequences of the strategy `direct`.
    """

    start_at: int = 0
    backlog_start_at: int = 0


NO_AIDS = SchedulingAids()


def build_scheduler(
    config: "ModelConfig",
    clock: Clock,
    timer: Timer,
    submitter: Submitter,
    bell: Bell,
    on_refused: Refused,
    on_sequence_ended: Ended,
    *,
    aids: SchedulingAids = NO_AIDS,
    states: StateStore | None = None,
    strategy: Strategy | None = None,
    log: Log | None = None,
) -> Scheduler:
    """The scheduler that `config` asks for.

    Args:
        states: what is kept for sequences; made once for the model version, None where it keeps nothing.
        strategy: the user's word on what may join a batch; the caller closes it.
        log: told what becomes of a latency target, and of failures of the strategy.
    """
    if config.HasField("sequence_batching"):
        return _sequence_scheduler(config, clock, timer, on_refused, on_sequence_ended, aids, states)
    if not config.HasField("dynamic_batching"):
        return QueuedScheduler(OneByOne(), clock, timer, submitter, bell, on_refused=on_refused)
    log = log or SilentLog()
    rule = batch_rule(config)
    if strategy is not None and isinstance(rule, DynamicBatching):
        rule = StrategyBatching(rule, strategy, config.name, log)
    target = latency_target(config)
    if target is not None and isinstance(rule, DynamicBatching):
        rule = _with_target(rule, config, target, log, clock, timer)
    return QueuedScheduler(
        rule,
        clock,
        timer,
        submitter,
        bell,
        priorities=priority_levels(config.dynamic_batching),
        on_refused=on_refused,
        start_at=aids.start_at,
    )


def _with_target(
    forming: DynamicBatching, config: "ModelConfig", target: LatencyTargetSetting, log: Log, clock: Clock, timer: Timer
) -> LatencyTargetBatching:
    """Plans are made on the timer's thread, step by step: they cost milliseconds, which an instance spends better."""

    def defer(step: Callable[[], None]) -> None:
        timer.at(clock.now_ns() + _PLAN_PAUSE_NS, step)

    asked = LatencyTarget(
        target.percentile / 100,
        int(target.ms * 1e6),
        config.dynamic_batching.max_queue_delay_microseconds * 1000,
    )
    return LatencyTargetBatching(forming, asked, target.key, config.name, log, defer)


def batch_rule(config: "ModelConfig") -> BatchRule:
    """Models that can't batch may still carry a section for it, for the rest of what that says."""
    if config.max_batch_size < 1:
        return OneByOne()
    has_sequences = config.HasField("sequence_batching")
    batching = config.sequence_batching.oldest if has_sequences else config.dynamic_batching
    return DynamicBatching(
        config.max_batch_size, tuple(batching.preferred_batch_size), batching.max_queue_delay_microseconds
    )


def _sequence_scheduler(
    config: "ModelConfig",
    clock: Clock,
    timer: Timer,
    on_refused: Refused,
    on_ended: Ended,
    aids: SchedulingAids,
    states: StateStore | None,
) -> SequenceScheduler:
    batching = config.sequence_batching
    controls = SequenceControls(config)
    plan = SequencePlan(controls, batching.max_sequence_idle_microseconds, batching.iterative_sequence, states)
    return SequenceScheduler(
        plan,
        partial(_new_lane, config, controls),
        clock,
        timer,
        on_refused=on_refused,
        on_ended=on_ended,
        gate=StartGate(aids.start_at, aids.backlog_start_at, is_each=batching.HasField("oldest")),
    )


def _new_lane(
    config: "ModelConfig", controls: SequenceControls, seat: object, number: int, lock: threading.Lock
) -> Lane:
    """Neither strategy given is `direct`. A model that does not batch has one slot."""
    rows = max(1, config.max_batch_size)
    if config.sequence_batching.HasField("oldest"):
        oldest = config.sequence_batching.oldest
        slots = oldest.max_candidate_sequences if oldest.max_candidate_sequences > 0 else rows
        place = Place(seat, number, slots, lock, controls)
        return OldestLane(place, batch_rule(config), keeps_order=oldest.preserve_ordering)
    direct = config.sequence_batching.direct
    return DirectLane(
        Place(seat, number, rows, lock, controls),
        min_ready=direct.minimum_slot_utilization * rows,
        max_delay_us=direct.max_queue_delay_microseconds,
        waits_for_all=not config.model_transaction_policy.decoupled,
    )


def priority_levels(batching: "ModelDynamicBatching") -> PriorityLevels:
    """Levels that the map does not name have the default policy."""
    default = _policy(batching.default_queue_policy)
    if not batching.priority_levels:
        return PriorityLevels(policy=default)
    named = {level: _policy(policy) for level, policy in batching.priority_queue_policy.items()}
    return PriorityLevels(batching.priority_levels, batching.default_priority_level, default, named)


def _policy(message: "ModelQueuePolicy") -> QueuePolicy:
    return QueuePolicy(
        TimeoutAction(message.timeout_action),
        message.default_timeout_microseconds,
        message.allow_timeout_override,
        message.max_queue_size,
    )
