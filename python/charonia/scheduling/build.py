"""From a model's configuration to its scheduler."""

from typing import TYPE_CHECKING

from charonia.core.clock import Clock
from charonia.core.protocols import Bell, Submitter
from charonia.scheduling.forming import BatchRule, DynamicBatching, OneByOne
from charonia.scheduling.queue import PriorityLevels, QueuePolicy, TimeoutAction
from charonia.scheduling.queued import QueuedScheduler, Refused
from charonia.scheduling.state import StateStore
from charonia.scheduling.timer import Timer

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelDynamicBatching, ModelQueuePolicy


def build_scheduler(
    config: "ModelConfig",
    clock: Clock,
    timer: Timer,
    submitter: Submitter,
    bell: Bell,
    on_refused: Refused,
    start_at: int = 0,
    *,
    states: StateStore | None = None,
) -> QueuedScheduler:
    """The scheduler that `config` asks for. `start_at` is the testing aid described at QueuedScheduler."""
    if not config.HasField("dynamic_batching"):
        return QueuedScheduler(OneByOne(), clock, timer, submitter, bell, on_refused=on_refused)
    return QueuedScheduler(
        batch_rule(config),
        clock,
        timer,
        submitter,
        bell,
        priorities=priority_levels(config.dynamic_batching),
        on_refused=on_refused,
        start_at=start_at,
    )


def batch_rule(config: "ModelConfig") -> BatchRule:
    """Models that can't batch may still carry a `dynamic_batching` section, for its queue policies."""
    if config.max_batch_size < 1:
        return OneByOne()
    batching = config.dynamic_batching
    return DynamicBatching(
        config.max_batch_size, tuple(batching.preferred_batch_size), batching.max_queue_delay_microseconds
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
