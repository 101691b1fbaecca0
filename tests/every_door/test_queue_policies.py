"""Priorities, limits and time-outs of queues: who goes first, and who is refused while every instance is busy."""

import numpy as np
import pytest

from charonia.core.errors import InvalidArgumentError, QueueFullError, QueueTimeoutError
from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import LONG_US, ask, row, value_of
from tests.every_door.watched import WatchedQueue
from tests.models.gated import PATIENCE_S

LEVELS = "max_batch_size: 1 dynamic_batching { priority_levels: 3 default_priority_level: 2 }"


def test_urgent_levels_go_first(gated):
    served = gated(LEVELS)
    served.occupy()
    asked = ((1, 3), (2, 0), (3, 1), (4, 3), (5, 2), (6, 1))
    futures = [served.send(value, priority=priority) for value, priority in asked]
    served.gate.open_for_good()
    for future in futures:
        value_of(future)
    order = [served.gate.next_entered()["values"][0] for _ in asked]
    assert order == [3, 6, 2, 5, 1, 4]


def test_priorities_come_through_every_door(gated, clients):
    served = gated(LEVELS)
    watched = WatchedQueue(served.model)
    served.occupy()
    watched.wait_queued()
    asked = [served.send(100)]
    watched.wait_queued()
    for value, name in enumerate(DOORS, 1):
        asked.append(clients.submit(ask, name, served.server, "m", row(value), priority=1))
        watched.wait_queued()
    served.gate.open_for_good()
    for each in asked:
        each.result(PATIENCE_S)
    assert [served.gate.next_entered()["values"][0] for _ in asked] == [*range(1, len(DOORS) + 1), 100]


def test_a_full_queue_refuses_at_once(gated):
    served = gated("max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 8 } }")
    served.occupy()
    futures = [served.send(value) for value in range(1, 11)]
    for refused in futures[8:]:  # while the instance is still busy
        with pytest.raises(QueueFullError, match=r"Exceeds maximum queue size.*'m'.*8"):
            refused.result(PATIENCE_S)
    served.gate.open_for_good()
    assert [value_of(future) for future in futures[:8]] == list(range(1, 9))
    assert served.model.statistics().inference["fail"].count == 2


@pytest.mark.parametrize("name", DOORS)
def test_refusals_of_the_queue_reach_every_door(gated, name):
    served = gated(
        "max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 1 allow_timeout_override: true } }"
    )
    served.occupy()
    with pytest.raises(RefusedError, match=r"Request timeout expired.*'m'") as late:
        ask(name, served.server, "m", row(1), timeout_us=1000)
    waiting = served.send(2)
    with pytest.raises(RefusedError, match=r"Exceeds maximum queue size.*'m'") as full:
        ask(name, served.server, "m", row(3), id="the third")
    assert (late.value.code, full.value.code) == ("UNAVAILABLE", "UNAVAILABLE")
    assert "the third" in str(full.value)
    served.gate.open_for_good()
    assert value_of(waiting) == 2
    np.testing.assert_array_equal(ask(name, served.server, "m", row(4))["OUT"], [[4]])


def test_each_level_has_its_own_policy(gated):
    served = gated(
        """
        max_batch_size: 1
        dynamic_batching {
          priority_levels: 2
          default_priority_level: 2
          default_queue_policy { max_queue_size: 3 }
          priority_queue_policy { key: 1 value { max_queue_size: 1 } }
        }
        """
    )
    served.occupy()
    urgent = [served.send(value, priority=1) for value in (1, 2)]
    usual = [served.send(value) for value in (3, 4, 5, 6)]
    assert isinstance(urgent[1].exception(PATIENCE_S), QueueFullError)
    assert isinstance(usual[3].exception(PATIENCE_S), QueueFullError)
    served.gate.open_for_good()
    assert [value_of(future) for future in (urgent[0], *usual[:3])] == [1, 3, 4, 5]


def test_a_place_in_the_queue_is_free_when_its_request_is_cancelled(gated):
    served = gated("max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 1 } }")
    served.occupy()
    served.send(1).cancel()
    kept = served.send(2)
    served.gate.open_for_good()
    assert value_of(kept) == 2


# Requests of priority 1 wait as long as they must: a busy machine may take a millisecond to hand one to its instance.
TIMED = """
    max_batch_size: 1
    dynamic_batching { default_queue_policy { timeout_action: %s default_timeout_microseconds: %d
                       allow_timeout_override: %s }
                       priority_levels: 2 default_priority_level: 2 priority_queue_policy { key: 1 value { } } }
"""


def test_a_request_that_waits_too_long_is_refused_while_the_instance_is_busy(gated):
    served = gated(TIMED % ("REJECT", 1000, "false"))
    busy = served.occupy(priority=1)
    with pytest.raises(QueueTimeoutError, match=r"Request timeout expired.*'m'"):
        served.send(1).result(PATIENCE_S)
    served.gate.open_for_good()
    assert value_of(busy) == 0


@pytest.mark.parametrize(("default_us", "own_us"), [(LONG_US, 1000), (0, 1000), (1000, LONG_US)])
def test_a_requests_own_timeout_shortens_and_never_extends(gated, default_us, own_us):
    served = gated(TIMED % ("REJECT", default_us, "true"))
    served.occupy(priority=1)
    with pytest.raises(QueueTimeoutError):
        served.send(1, timeout_us=own_us).result(PATIENCE_S)


def test_a_requests_own_timeout_counts_only_where_the_model_allows_it(gated):
    served = gated(TIMED % ("REJECT", 0, "false"))
    served.occupy()
    patient = served.send(1, timeout_us=1)
    served.gate.open_for_good()
    assert value_of(patient) == 1


def test_delayed_requests_let_others_pass(gated):
    served = gated(TIMED % ("DELAY", 0, "true"))
    served.occupy()
    late, punctual = served.send(1, timeout_us=1), served.send(2)
    served.gate.open_for_good()
    assert (value_of(late), value_of(punctual)) == (1, 2)
    assert [served.gate.next_entered()["values"][0] for _ in range(2)] == [2, 1]


def test_a_wrong_request_is_refused_while_the_instance_is_busy(gated):
    served = gated("max_batch_size: 4 dynamic_batching { }", dims="2")
    served.model.submit({"IN": np.zeros((1, 2), np.float32)})
    served.gate.next_entered()
    with pytest.raises(InvalidArgumentError, match=r"input 'IN' for model 'm'. Expected \[-1,2\], got \[1,3\]"):
        served.send(1, length=3).result(PATIENCE_S)
