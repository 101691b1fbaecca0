"""From a model's configuration to its scheduler."""

from typing import TYPE_CHECKING

from charonia.core.clock import Clock
from charonia.core.protocols import Bell, Submitter
from charonia.scheduling.forming import BatchRule, DynamicBatching, OneByOne
from charonia.scheduling.queue import QueuePolicy, TimeoutAction
from charonia.scheduling.queued import QueuedScheduler, Refused
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
) -> QueuedScheduler:
    """The scheduler that `config` asks for. `start_at` is the testing aid described at QueuedScheduler."""
    if not config.HasField("dynamic_batching"):
        return QueuedScheduler(OneByOne(), clock, timer, submitter, bell, on_refused=on_refused)
    batching = config.dynamic_batching
    policies = queue_policies(batching)
    return QueuedScheduler(
        batch_rule(config),
        clock,
        timer,
        submitter,
        bell,
        policies=policies,
        default_level=max(0, batching.default_priority_level - 1),
        explicit_levels=batching.priority_levels > 0,
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


def queue_policies(batching: "ModelDynamicBatching") -> list[QueuePolicy]:
    """One policy for each priority level; levels that the map does not name have the default policy."""
    default = batching.default_queue_policy
    if not batching.priority_levels:
        return [_policy(default)]
    named = dict(batching.priority_queue_policy)
    return [_policy(named.get(level, default)) for level in range(1, batching.priority_levels + 1)]


def _policy(message: "ModelQueuePolicy") -> QueuePolicy:
    return QueuePolicy(
        TimeoutAction(message.timeout_action),
        message.default_timeout_microseconds,
        message.allow_timeout_override,
        message.max_queue_size,
    )
