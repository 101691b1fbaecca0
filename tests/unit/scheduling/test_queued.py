"""The scheduler with real threads where waiting matters, and a hand-driven clock where time does."""

import threading

import pytest

from charonia.core.errors import QueueFullError, UnavailableError
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.forming import DynamicBatching, OneByOne
from charonia.scheduling.queue import PriorityLevels, QueuePolicy, TimeoutAction
from charonia.scheduling.queued import QueuedScheduler
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request

HOUR_US = 3_600_000_000


class World:
    """A scheduler whose clock and timer the test drives."""

    def __init__(self, rule=None, **options):
        self.clock = ManualClock()
        self.timer = Timer(self.clock)
        self.bell = ConditionBell()
        self.refused = []
        self.channel = KeptReplies()
        self.scheduler = QueuedScheduler(
            rule or OneByOne(),
            self.clock,
            self.timer,
            self,
            self.bell,
            on_refused=lambda request, error: self.refused.append((request, error.failure_reason)),
            **options,
        )

    def submit(self, request):
        self.scheduler.enqueue(request)

    def enqueue(self, **options):
        request = make_request(self.channel, **options)
        self.scheduler.enqueue(request)
        return request

    def pull_in_thread(self):
        pulled = []
        thread = threading.Thread(target=lambda: pulled.append(self.scheduler.next_batch(self.bell)))
        thread.start()
        return thread, pulled


def test_a_waiting_instance_wakes_for_a_request():
    world = World()
    thread, pulled = world.pull_in_thread()
    request = world.enqueue()
    thread.join(10)
    assert [list(batch) for batch in pulled] == [[request]]
    assert world.scheduler.pending_count == 0


def test_every_instance_wakes_when_there_is_work_for_each():
    world = World()
    pulls = [world.pull_in_thread() for _ in range(3)]
    requests = {world.enqueue() for _ in range(3)}
    for thread, _ in pulls:
        thread.join(10)
    assert {batch[0] for _, pulled in pulls for batch in pulled} == requests


class Seat:
    """An instance that others may drive while it waits."""

    def __init__(self, world):
        self.driving = threading.Lock()
        self.pulled = []
        self._world = world
        self._begun = threading.Event()
        self.thread = threading.Thread(target=self._pull)
        self.thread.start()
        assert self._begun.wait(10)

    def _pull(self):
        with self.driving:
            self._begun.set()
            self.pulled.append(self._world.scheduler.next_batch(self._world.bell, self))

    def borrow(self):
        assert self.driving.acquire(timeout=10)  # it waits for work


def test_what_an_instance_is_woken_for_while_another_thread_drives_it_is_left_to_one_that_is_free():
    world = World()
    lent, free = Seat(world), Seat(world)
    lent.borrow()
    free.borrow()
    free.driving.release()
    requests = [world.enqueue()]
    free.thread.join(10)
    assert [list(batch) for batch in free.pulled] == [requests]
    assert lent.pulled == []
    last = world.enqueue()
    lent.driving.release()
    lent.thread.join(10)
    assert [list(batch) for batch in lent.pulled] == [[last]]


def test_an_instance_that_joins_late_finds_what_waits():
    world = World(DynamicBatching(8, (), 0))
    requests = [world.enqueue() for _ in range(3)]
    assert list(world.scheduler.next_batch(world.bell)) == requests


def test_requests_that_come_by_the_bell_are_submitted_and_served():
    world = World()
    arriving = make_request(world.channel)

    class HandingBell:
        def poll(self):
            return ()

        def wait(self, timeout_s):
            return [arriving]

        def ring(self, count=1):
            raise AssertionError("nobody else is idle")

    assert list(world.scheduler.next_batch(HandingBell())) == [arriving]


def test_timed_out_requests_are_refused_while_every_instance_is_busy():
    world = World(priorities=PriorityLevels(policy=QueuePolicy(default_timeout_us=1000)))
    request = world.enqueue()
    world.clock.advance(us=999)
    world.timer.run_due()
    assert not request.settled
    world.clock.advance(us=1)
    world.timer.run_due()
    assert "Request timeout expired" in world.channel.error_of(request)
    assert world.refused == [(request, "REJECTED")]
    assert world.scheduler.pending_count == 0


def test_each_timeout_fires_on_its_own():
    policy = QueuePolicy(default_timeout_us=10_000, allow_timeout_override=True)
    world = World(priorities=PriorityLevels(policy=policy))
    usual, short = world.enqueue(), world.enqueue(timeout_us=100)
    world.clock.advance(us=100)
    world.timer.run_due()
    assert short.settled
    assert not usual.settled
    world.clock.advance(us=9_900)
    world.timer.run_due()
    assert usual.settled


def test_timeouts_do_not_pile_up_in_the_timer():
    """One call of the timer is enough for a deadline, however many shorter ones came in between."""
    policy = QueuePolicy(default_timeout_us=HOUR_US, allow_timeout_override=True)
    world = World(priorities=PriorityLevels(policy=policy))
    usual = world.enqueue()
    for _ in range(20):
        short = world.enqueue(timeout_us=100)
        world.clock.advance(us=100)
        world.timer.run_due()
        assert short.settled
    assert len(world.timer._entries) == 1
    world.clock.advance(s=3600)
    world.timer.run_due()
    assert usual.settled
    assert world.timer._entries == []


def test_delayed_requests_run_after_younger_ones():
    world = World(priorities=PriorityLevels(policy=QueuePolicy(TimeoutAction.DELAY, default_timeout_us=1000)))
    late = world.enqueue()
    world.clock.advance(ms=2)
    world.timer.run_due()
    young = world.enqueue()
    assert [list(world.scheduler.next_batch(world.bell)) for _ in range(2)] == [[young], [late]]


def until_it_grows(world, rows):
    """Until the instance that pulls has seen `rows` rows and waits for more."""
    scheduler, moment = world.scheduler, threading.Event()
    while not (scheduler._idle and not scheduler._rung and scheduler._growing.wake_rows > rows):
        moment.wait(0.001)


@pytest.mark.parametrize("action", [TimeoutAction.REJECT, TimeoutAction.DELAY])
def test_a_timeout_lets_the_rest_go_when_it_is_a_batch(action):
    policy = QueuePolicy(action, default_timeout_us=1000)
    world = World(DynamicBatching(8, (4, 8), HOUR_US), priorities=PriorityLevels(policy=policy))
    thread, pulled = world.pull_in_thread()
    world.enqueue(rows=1)
    world.clock.advance(us=500)
    pair = [world.enqueue(rows=2), world.enqueue(rows=2)]
    until_it_grows(world, 5)
    world.clock.advance(us=500)
    world.timer.run_due()
    thread.join(10)
    assert [list(batch) for batch in pulled] == [pair]


def test_a_cancellation_lets_the_rest_go_when_it_is_a_batch():
    world = World(DynamicBatching(8, (4, 8), HOUR_US))
    thread, pulled = world.pull_in_thread()
    first = world.enqueue(rows=1)
    pair = [world.enqueue(rows=2), world.enqueue(rows=2)]
    until_it_grows(world, 5)
    first.cancel()
    thread.join(10)
    assert [list(batch) for batch in pulled] == [pair]


def test_an_urgent_request_completes_a_batch_in_front_of_the_others():
    world = World(DynamicBatching(8, (4, 8), HOUR_US), priorities=PriorityLevels(2, 2))
    thread, pulled = world.pull_in_thread()
    waiting = [world.enqueue(rows=3, priority=2), world.enqueue(rows=3, priority=2)]
    until_it_grows(world, 6)
    urgent = world.enqueue(rows=1, priority=1)
    thread.join(10)
    assert [list(batch) for batch in pulled] == [[urgent, waiting[0]]]


def test_a_cancelled_request_leaves_at_once_and_frees_its_place():
    world = World(priorities=PriorityLevels(policy=QueuePolicy(max_queue_size=1)))
    request = world.enqueue()
    with pytest.raises(QueueFullError):
        world.enqueue()
    request.cancel()
    assert "cancelled" in world.channel.error_of(request)
    assert world.refused == [(request, "CANCELED")]
    other = world.enqueue()
    assert list(world.scheduler.next_batch(world.bell)) == [other]


def test_a_request_cancelled_before_it_is_queued_never_runs():
    world = World()
    request = make_request(world.channel)
    request.cancel()
    world.scheduler.enqueue(request)
    assert request.settled
    assert world.scheduler.pending_count == 0


def test_cancelling_an_executing_request_does_not_settle_it():
    world = World()
    request = world.enqueue()
    world.scheduler.next_batch(world.bell)
    request.cancel()
    assert not request.settled
    assert request.cancelled


def test_stop_settles_what_waits_and_ends_the_instances():
    world = World()
    request = world.enqueue()
    world.scheduler.stop()
    assert "unloaded" in world.channel.error_of(request)
    assert world.scheduler.next_batch(world.bell) is None
    with pytest.raises(UnavailableError):
        world.enqueue()


def test_stop_ends_an_instance_that_waits():
    world = World()
    thread, pulled = world.pull_in_thread()
    world.scheduler.stop()
    thread.join(10)
    assert pulled == [None]


def test_nothing_is_released_before_the_testing_aid_allows_it():
    world = World(DynamicBatching(8, (), 0), start_at=3)
    thread, pulled = world.pull_in_thread()
    requests = [world.enqueue() for _ in range(3)]
    thread.join(10)
    assert [list(batch) for batch in pulled] == [requests]


def test_many_threads_lose_nothing():
    world = World(DynamicBatching(4, (), 0))
    taken, lock = [], threading.Lock()

    def instance():
        while (batch := world.scheduler.next_batch(world.bell)) is not None:
            with lock:
                taken.extend(batch)
                if len(taken) == 4000:
                    done.set()

    done = threading.Event()
    instances = [threading.Thread(target=instance) for _ in range(3)]
    clients = [threading.Thread(target=lambda: [world.enqueue() for _ in range(1000)]) for _ in range(4)]
    for thread in (*instances, *clients):
        thread.start()
    assert done.wait(30)
    world.scheduler.stop()
    for thread in (*instances, *clients):
        thread.join(10)
    assert len(set(map(id, taken))) == 4000


def test_an_instance_that_is_dismissed_gets_nothing_more_and_the_others_go_on():
    world = World()
    leaving, staying = object(), object()
    pulled = {}

    def pull(seat):
        pulled[seat] = world.scheduler.next_batch(world.bell, seat)

    threads = [threading.Thread(target=pull, args=(seat,)) for seat in (leaving, staying)]
    for thread in threads:
        thread.start()
    world.scheduler.dismiss([leaving])
    threads[0].join(10)
    assert pulled == {leaving: None}
    request = world.enqueue()
    threads[1].join(10)
    assert list(pulled[staying]) == [request]


def test_an_instance_that_is_dismissed_at_work_gets_nothing_afterwards():
    world = World()
    leaving = object()
    request = world.enqueue()
    assert list(world.scheduler.next_batch(world.bell, leaving)) == [request]
    world.scheduler.dismiss([leaving])
    world.enqueue()
    assert world.scheduler.next_batch(world.bell, leaving) is None


def test_of_two_requests_that_come_while_an_instance_leaves_the_other_gets_one():
    for _ in range(200):
        world = World()
        leaving = object()
        threads = [
            threading.Thread(target=world.scheduler.next_batch, args=(world.bell, seat)) for seat in (leaving, object())
        ]
        for thread in threads:
            thread.start()
        dismissing = threading.Thread(target=world.scheduler.dismiss, args=([leaving],))
        dismissing.start()
        world.enqueue()
        world.enqueue()
        for thread in (*threads, dismissing):
            thread.join(10)
            assert not thread.is_alive()
        world.scheduler.stop()


@pytest.mark.parametrize("delay_us", [HOUR_US, 2**64 - 1])
def test_a_batch_that_waits_for_more_is_released_when_it_is_hastened(delay_us):
    world = World(DynamicBatching(8, (), delay_us))
    thread, pulled = world.pull_in_thread()
    requests = [world.enqueue(), world.enqueue()]
    world.scheduler.hasten()
    thread.join(10)
    assert [list(batch) for batch in pulled] == [requests]
    late = world.enqueue()
    assert list(world.scheduler.next_batch(world.bell)) == [late]


def test_a_testing_aid_does_not_outlive_the_haste():
    world = World(start_at=5)
    thread, pulled = world.pull_in_thread()
    request = world.enqueue()
    world.scheduler.hasten()
    thread.join(10)
    assert [list(batch) for batch in pulled] == [[request]]


def test_a_scheduler_that_was_stopped_is_forgotten_by_the_timer():
    policy = QueuePolicy(TimeoutAction.REJECT, HOUR_US, False, 0)
    world = World(priorities=PriorityLevels(policy=policy))
    world.enqueue()
    assert world.timer.run_due() is not None
    world.scheduler.stop()
    assert world.timer.run_due() is None
