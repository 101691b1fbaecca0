"""Which batch an idle instance gets, by the queue and the time alone."""

import pytest

from charonia.scheduling.forming import DynamicBatching, OneByOne
from charonia.scheduling.queue import PriorityLevels, RequestQueue
from charonia.testing.requests import KeptReplies, make_request

NOW_NS = 5_000_000_000


class Owner:
    def cancel(self, request):
        raise AssertionError("nobody cancels here")


def queue_of(*rows, ages_us=None, shape_keys=None):
    queue = RequestQueue(Owner(), PriorityLevels())
    channel = KeptReplies()
    for index, size in enumerate(rows):
        age_us = ages_us[index] if ages_us else 0
        key = shape_keys[index] if shape_keys else 1
        queue.push(make_request(channel, rows=size, shape_key=key), NOW_NS - age_us * 1000)
    return queue


def sizes(decision):
    return [request.batch_size for request in decision.batch]


def test_without_batching_requests_run_alone_in_order():
    queue = queue_of(1, 1)
    first, second = list(queue.waiting())
    decision = OneByOne().decide(queue, NOW_NS)
    assert list(decision.batch) == [first]
    queue.take(decision.batch)
    assert list(OneByOne().decide(queue, NOW_NS).batch) == [second]


def test_an_empty_queue_gives_nothing_and_no_time():
    decision = DynamicBatching(8, (), 100).decide(queue_of(), NOW_NS)
    assert not decision.batch
    assert decision.wake_ns is None


@pytest.mark.parametrize(
    ("rows", "preferred", "delay_us", "expected"),
    [
        ((1,) * 5, (), 0, [1] * 5),  # no delay: whatever waits goes
        ((1,) * 20, (), 0, [1] * 16),  # never more than max_batch_size
        ((1,) * 16, (2, 4, 16), 100_000, [1] * 16),  # the largest preferred size within reach, not the first
        ((1,) * 5, (2, 4, 16), 100_000, [1] * 4),
        ((1,) * 5, (2, 4, 16), 0, [1] * 4),
        ((3, 3, 3), (4,), 100_000, [3]),  # 6 would pass the largest preferred size
        ((10, 7), (), 0, [10]),  # 17 would pass max_batch_size
        ((16,), (4,), 100_000, [16]),
    ],
)
def test_the_released_batch(rows, preferred, delay_us, expected):
    decision = DynamicBatching(16, preferred, delay_us).decide(queue_of(*rows), NOW_NS)
    assert sizes(decision) == (expected or [])


def test_growing_waits_until_the_oldest_has_waited_the_delay():
    queue = queue_of(1, 1, ages_us=[40, 10])
    rule = DynamicBatching(16, (4, 8), 100)
    decision = rule.decide(queue, NOW_NS)
    assert not decision.batch
    assert decision.wake_ns == NOW_NS + 60_000
    assert decision.wake_rows == 4
    assert sizes(rule.decide(queue, NOW_NS + 60_000)) == [1, 1]
    assert not rule.decide(queue, NOW_NS + 59_999).batch


def test_a_request_of_another_shape_ends_the_growing():
    decision = DynamicBatching(16, (8,), 1000).decide(queue_of(1, 1, 1, shape_keys=[1, 1, 2]), NOW_NS)
    assert sizes(decision) == [1, 1]


def test_other_shapes_do_not_change_places():
    queue = queue_of(1, 1, 1, shape_keys=[1, 2, 1])
    assert sizes(DynamicBatching(16, (), 0).decide(queue, NOW_NS)) == [1]


def test_after_the_delay_all_that_fits_goes_even_past_a_preferred_size():
    queue = queue_of(1, 1, 1, 1, 1, ages_us=[200, 0, 0, 0, 0])
    assert sizes(DynamicBatching(16, (4,), 100).decide(queue, NOW_NS)) == [1] * 5


def test_a_batch_that_can_still_grow_is_kept_back():
    assert not DynamicBatching(16, (), 100).decide(queue_of(5, 5, 5), NOW_NS).batch
