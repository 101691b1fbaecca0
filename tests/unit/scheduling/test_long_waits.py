"""A time-out is any number that a client or a configuration gives: nothing ends where Python can't wait for so long."""

import threading

import pytest

from charonia.core.clock import MonotonicClock
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.forming import DynamicBatching
from charonia.scheduling.queued import QueuedScheduler
from charonia.scheduling.timer import Timer
from charonia.testing.requests import KeptReplies, make_request
from tests.unit.scheduling.sequence_world import START, SequenceWorld

MAX_UINT64 = 2**64 - 1
FAR_US = [2**63 - 1, MAX_UINT64, 10 * int(threading.TIMEOUT_MAX) * 1_000_000]
PATIENCE_S = 10


class WatchedClock(MonotonicClock):
    """Tells when it was read: by whoever is about to wait."""

    def __init__(self):
        self.was_read = threading.Event()

    def now_ns(self):
        self.was_read.set()
        return super().now_ns()


@pytest.mark.parametrize("far_us", FAR_US)
def test_the_timer(far_us):
    clock, deaths, called = WatchedClock(), [], threading.Event()
    timer = Timer(clock, deaths.append)
    timer.at(far_us * 1000, lambda: None)
    timer.start()
    assert clock.was_read.wait(PATIENCE_S)
    timer.at(0, called.set)  # not before the thread waits, or has died: it holds the lock until then
    assert called.wait(PATIENCE_S)
    timer.stop()
    assert deaths == []


@pytest.mark.parametrize("far_us", FAR_US)
def test_the_plain_bell(far_us):
    bell = ConditionBell()
    came = []
    thread = threading.Thread(target=lambda: came.append(bell.wait(far_us / 1e6)))
    thread.start()
    bell.ring()
    thread.join(PATIENCE_S)
    assert came == [()]


def pulls(scheduler, bell=None, seat="a"):
    """The batch that an instance gets that waits for the first of two requests to grow."""
    pulled = []
    thread = threading.Thread(target=lambda: pulled.append(scheduler.next_batch(bell, seat)))
    return thread, pulled


@pytest.mark.parametrize("far_us", FAR_US)
def test_a_batch_that_may_grow_for_ages(far_us):
    bell, clock, channel = ConditionBell(), WatchedClock(), KeptReplies()
    scheduler = QueuedScheduler(DynamicBatching(4, [2], far_us), clock, Timer(clock), None, bell)
    first = make_request(channel)
    scheduler.enqueue(first)
    clock.was_read.clear()
    thread, pulled = pulls(scheduler, bell)
    thread.start()
    assert clock.was_read.wait(PATIENCE_S)
    second = make_request(channel)
    scheduler.enqueue(second)
    thread.join(PATIENCE_S)
    assert pulled == [[first, second]]


@pytest.mark.parametrize("far_us", [FAR_US[0], MAX_UINT64])
@pytest.mark.parametrize(
    "strategy",
    [
        "direct {{ max_queue_delay_microseconds: {} minimum_slot_utilization: 0.5 }}",
        "oldest {{ max_queue_delay_microseconds: {} preferred_batch_size: [ 2 ] }}",
    ],
)
def test_a_batch_of_sequences_that_may_grow_for_ages(strategy, far_us):
    world = SequenceWorld(strategy.format(far_us))
    first = world.enqueue(1, START)
    asleep = threading.Event()
    lane = world.scheduler._table.lanes["a"]
    wait = lane.wait

    def watched_wait(timeout_s, growing):
        asleep.set()
        wait(timeout_s, growing)

    lane.wait = watched_wait
    thread, pulled = pulls(world.scheduler)
    thread.start()
    assert asleep.wait(PATIENCE_S)
    second = world.enqueue(2, START)
    thread.join(PATIENCE_S)
    assert [list(batch) for batch in pulled] == [[first, second]]
