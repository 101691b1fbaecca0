"""Levels, limits, time-outs and places in the queue."""

import pytest

from charonia.core.errors import QueueFullError
from charonia.scheduling.queue import PriorityLevels, QueuePolicy, RequestQueue, TimeoutAction
from charonia.testing.requests import KeptReplies, make_request

MS = 1_000_000


class Owner:
    def cancel(self, request):
        raise AssertionError("nobody cancels here")


@pytest.fixture
def channel():
    return KeptReplies()


DEFAULT = QueuePolicy()


def make_queue(policy=DEFAULT, *, levels=0, default=1):
    return RequestQueue(Owner(), PriorityLevels(levels, default, policy))


def test_levels_are_served_in_order_and_unknown_priorities_join_the_default(channel):
    queue = make_queue(levels=3, default=2)
    requests = {priority: make_request(channel, priority=priority) for priority in (3, 2, 1, 0, 9)}
    for request in requests.values():
        queue.push(request, 0)
    assert [request.priority for request in queue.waiting()] == [1, 2, 0, 9, 3]


def test_without_levels_a_priority_means_nothing(channel):
    queue = make_queue()
    for priority in (3, 1):
        queue.push(make_request(channel, priority=priority), 0)
    assert [request.priority for request in queue.waiting()] == [3, 1]


def test_a_full_level_refuses_and_a_freed_place_is_free_at_once(channel):
    queue = make_queue(QueuePolicy(max_queue_size=2))
    first, second, third = (make_request(channel, id=str(index)) for index in range(3))
    queue.push(first, 0)
    queue.push(second, 0)
    with pytest.raises(QueueFullError, match=r"\[request id: 2\] Exceeds maximum queue size"):
        queue.push(third, 0)
    assert queue.remove(second)
    queue.push(third, 0)
    assert list(queue.waiting()) == [first, third]
    assert not queue.remove(second)


def test_reject_removes_each_request_at_its_own_deadline(channel):
    queue = make_queue(QueuePolicy(default_timeout_us=1000, allow_timeout_override=True))
    usual, short, long = (make_request(channel, timeout_us=us) for us in (0, 100, 10_000))
    for request in (usual, short, long):
        queue.push(request, 0)
    assert queue.next_deadline_ns() == 100_000
    assert queue.expire(100_000) == [short]
    assert queue.expire(999_999) == []
    assert queue.expire(1 * MS) == [usual, long]  # a longer time-out does not extend the default
    assert queue.count == 0
    assert queue.rows == 0
    assert queue.next_deadline_ns() is None


def test_without_permission_the_request_has_no_say(channel):
    queue = make_queue(QueuePolicy(default_timeout_us=1000))
    request = make_request(channel, timeout_us=10)
    queue.push(request, 0)
    assert queue.next_deadline_ns() == 1 * MS


def test_an_own_timeout_counts_where_there_is_no_default(channel):
    queue = make_queue(QueuePolicy(allow_timeout_override=True))
    queue.push(make_request(channel, timeout_us=10), 0)
    assert queue.next_deadline_ns() == 10_000


def test_delay_moves_behind_the_others_and_rejects_nobody(channel):
    queue = make_queue(QueuePolicy(TimeoutAction.DELAY, default_timeout_us=1000))
    late, fresh = make_request(channel), make_request(channel)
    queue.push(late, 0)
    queue.push(fresh, 1 * MS)
    assert queue.expire(1 * MS) == []
    assert list(queue.waiting()) == [fresh, late]
    assert queue.count == 2


def test_settled_entries_do_not_pile_up_behind_a_waiting_one(channel):
    queue = make_queue(QueuePolicy(default_timeout_us=10**9))
    oldest = make_request(channel)
    queue.push(oldest, 0)
    for _ in range(1000):
        request = make_request(channel)
        queue.push(request, 0)
        queue.remove(request)
        queue.next_deadline_ns()
    assert len(queue._levels[1].fresh) < 100
    assert len(queue._deadlines) < 100
    assert list(queue.waiting()) == [oldest]


def test_there_may_be_more_levels_than_memory_and_used_ones_do_not_pile_up(channel):
    queue = make_queue(levels=2**64 - 1, default=2**32)
    for priority in (2**63, 0, 1):
        queue.push(make_request(channel, priority=priority), 0)
    assert [request.priority for request in queue.waiting()] == [1, 0, 2**63]
    for priority in range(1, 1000):
        request = make_request(channel, priority=priority)
        queue.push(request, 0)
        queue.remove(request)
    assert len(queue._levels) < 30
    assert [request.priority for request in queue.waiting()] == [1, 0, 2**63]


def test_a_level_has_the_policy_that_names_it(channel):
    named = {1: QueuePolicy(max_queue_size=1)}
    queue = RequestQueue(Owner(), PriorityLevels(2, 2, QueuePolicy(), named))
    for priority in (1, 2, 2):
        queue.push(make_request(channel, priority=priority), 0)
    with pytest.raises(QueueFullError):
        queue.push(make_request(channel, priority=1), 0)
