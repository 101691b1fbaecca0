"""Queue policies as the configuration has them: the usual one and those of levels."""

from google.protobuf import text_format

from charonia.config.schema import ModelConfig
from charonia.scheduling.build import priority_levels
from charonia.scheduling.queue import PriorityLevels, QueuePolicy, TimeoutAction


def levels(text: str) -> PriorityLevels:
    config = text_format.Parse(f"dynamic_batching {{ {text} }}", ModelConfig())
    return priority_levels(config.dynamic_batching)


def test_every_field_of_every_policy() -> None:
    text = "timeout_action: DELAY default_timeout_microseconds: {} allow_timeout_override: true max_queue_size: {}"
    made = levels(
        f"priority_levels: 3 default_priority_level: 2 default_queue_policy {{ {text.format(5, 7)} }} "
        f"priority_queue_policy {{ key: 1 value {{ {text.format(6, 8)} }} }} "
        "priority_queue_policy { key: 3 value { } }"
    )
    assert (made.count, made.default) == (3, 2)
    assert made.policy_of(1) == QueuePolicy(TimeoutAction.DELAY, 6, allow_timeout_override=True, max_queue_size=8)
    assert made.policy_of(2) == QueuePolicy(TimeoutAction.DELAY, 5, allow_timeout_override=True, max_queue_size=7)
    assert made.policy_of(3) == QueuePolicy()


def test_without_levels_there_is_one_policy() -> None:
    named = "priority_queue_policy { key: 1 value { max_queue_size: 9 } }"
    made = levels(f"default_queue_policy {{ max_queue_size: 4 }} {named}")
    assert made.policy_of(1) == QueuePolicy(max_queue_size=4)
