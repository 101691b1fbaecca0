"""Schedulers whose instances need turns of the rate limiter: what is executed then, and when nobody holds anything."""

import threading

import pytest

from charonia.config.rate_limits import NeededResource, RateNeeds, given_resources
from charonia.scheduling.forming import DynamicBatching
from charonia.scheduling.queue import PriorityLevels, QueuePolicy
from charonia.scheduling.rate_limit import RateLimiter
from charonia.scheduling.rate_share import Turn
from charonia.testing.requests import make_request
from tests.unit.scheduling.sequence_world import BOTH, START, SequenceWorld
from tests.unit.scheduling.test_queued import World

ONE = RateNeeds((NeededResource("R", 1, False),))
PATIENCE_S = 10


class Seat:
    """An instance that needs the one R there is. `events` has a word for each wait that begins."""

    def __init__(self, limiter, name="m"):
        self.share = limiter.group(name).join([(object(), name, 0, ONE)])[0]
        self.waiting = threading.Semaphore(0)
        wait = self.share.wait
        self.share.wait = lambda: (self.waiting.release(), wait())[1]

    def pull_in_thread(self, world):
        pulled = []
        thread = threading.Thread(target=lambda: pulled.append(world.scheduler.next_batch(world.bell, self)))
        thread.start()
        return thread, pulled

    def hold(self):
        assert self.share.ask()
        self.share.begin(())

    def wait_asking(self):
        assert self.waiting.acquire(timeout=PATIENCE_S)


@pytest.fixture
def limiter():
    return RateLimiter(given_resources(["R:1"]))


def joined(thread, pulled):
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return pulled[0] and list(pulled[0])


def test_a_batch_grows_until_its_instance_has_its_turn(limiter):
    world, other, seat = World(DynamicBatching(8, (), 0)), Seat(limiter), Seat(limiter)
    other.hold()
    first = world.enqueue()
    pulling = seat.pull_in_thread(world)
    seat.wait_asking()
    later = [world.enqueue() for _ in range(3)]
    other.share.free()
    assert joined(*pulling) == [first, *later]


def test_an_idle_instance_holds_nothing(limiter):
    world, other, seat = World(), Seat(limiter), Seat(limiter)
    request = world.enqueue()
    assert joined(*seat.pull_in_thread(world)) == [request]
    seat.share.begin([request])
    assert not other.share.ask()
    thread, pulled = seat.pull_in_thread(world)  # it has executed its batch, and there is nothing else
    assert other.share.changed.wait(PATIENCE_S)
    assert other.share.ask()
    world.scheduler.stop()
    assert joined(thread, pulled) is None


def test_a_delay_is_waited_for_without_a_turn(limiter):
    world, seat = World(DynamicBatching(8, (), 10**9)), Seat(limiter)
    world.enqueue()
    thread, pulled = seat.pull_in_thread(world)
    world.enqueue()
    assert seat.share.turn is Turn.IDLE
    world.scheduler.hasten()
    assert len(joined(thread, pulled)) == 2


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_when_nothing_waits_any_more_the_place_in_the_line_is_given_up(limiter, how):
    world = World(priorities=PriorityLevels(policy=QueuePolicy(default_timeout_us=1000)))
    other, seat = Seat(limiter), Seat(limiter)
    other.hold()
    request = world.enqueue()
    thread, pulled = seat.pull_in_thread(world)
    seat.wait_asking()
    if how == "cancel":
        request.cancel()
    else:
        world.clock.advance(us=1000)
        world.timer.run_due()
    assert request.settled
    last = world.enqueue()
    other.share.free()
    assert joined(thread, pulled) == [last]


def test_a_request_that_waits_too_long_is_refused_on_time(limiter):
    world = World(priorities=PriorityLevels(policy=QueuePolicy(default_timeout_us=1000)))
    other, seat = Seat(limiter), Seat(limiter)
    other.hold()
    request = world.enqueue()
    pulling = seat.pull_in_thread(world)
    seat.wait_asking()
    world.clock.advance(us=1000)
    world.timer.run_due()
    assert "Request timeout expired" in world.channel.error_of(request)
    world.scheduler.stop()
    assert joined(*pulling) is None


@pytest.mark.parametrize("how", ["stop", "dismiss"])
def test_an_instance_that_leaves_does_not_wait_for_its_turn(limiter, how):
    world, other, seat = World(), Seat(limiter), Seat(limiter)
    other.hold()
    request = world.enqueue()
    pulling = seat.pull_in_thread(world)
    seat.wait_asking()
    world.scheduler.stop() if how == "stop" else world.scheduler.dismiss([seat])
    assert joined(*pulling) is None
    assert request.settled == (how == "stop")


def test_another_instance_is_woken_that_may_have_its_turn(limiter):
    world, other, blocked = World(), Seat(limiter), Seat(limiter)

    class Free:
        share = None

    other.hold()
    free = Free()
    pulled = []
    thread = threading.Thread(target=lambda: pulled.append(world.scheduler.next_batch(world.bell, free)))
    blocked_pull = blocked.pull_in_thread(world)
    thread.start()
    request = world.enqueue()
    assert joined(thread, pulled) == [request]
    world.scheduler.stop()
    assert joined(*blocked_pull) is None


def test_one_turn_takes_all_there_is_and_the_others_stand_down(limiter):
    world, other = World(DynamicBatching(8, (), 0)), Seat(limiter)
    seats = [Seat(limiter, f"m{number}") for number in range(2)]
    other.hold()
    world.enqueue()
    pulls = []
    for seat in seats:
        pulls.append(seat.pull_in_thread(world))
        seat.wait_asking()
    other.share.free()
    assert len(joined(*pulls[0])) == 1  # it has asked first
    seats[0].share.begin(())
    assert not other.share.ask()
    seats[0].share.free()
    assert other.share.changed.wait(PATIENCE_S)
    world.scheduler.stop()
    assert joined(*pulls[1]) is None


def test_who_borrows_an_instance_gets_no_batch_without_a_turn(limiter):
    world, other, seat = World(), Seat(limiter), Seat(limiter)
    other.hold()
    first, second = make_request(world.channel), make_request(world.channel)
    assert world.scheduler.enqueue_all([first], takes=True, share=seat.share) == ([], ())
    assert world.scheduler.pending_count == 1
    other.share.free()
    _, batch = world.scheduler.enqueue_all([second], takes=True, share=seat.share)
    assert list(batch) == [first]
    assert seat.share.turn is Turn.GRANTED


@pytest.mark.parametrize("batching", ["direct { }", "oldest { max_candidate_sequences: 4 }"])
def test_a_sequence_waits_for_the_turn_of_its_instance(limiter, batching):
    other, seat = Seat(limiter), Seat(limiter)
    world = SequenceWorld(batching, seats=(seat,))
    other.hold()
    world.enqueue(1, START)
    assert world.pull(seat) == ()
    assert seat.share.turn is Turn.ASKING
    other.share.free()
    assert world.run(seat)[0][:2] == (1, True)
    seat.share.begin(())
    assert not other.share.ask()
    assert world.pull(seat) == ()
    assert seat.share.turn is Turn.IDLE
    assert other.share.ask()


def test_a_cancelled_sequence_gives_up_its_place_in_the_line(limiter):
    other, seat = Seat(limiter), Seat(limiter)
    world = SequenceWorld(seats=(seat,))
    world.bell = None
    other.hold()
    request = world.enqueue(1, BOTH)
    thread, pulled = seat.pull_in_thread(world)
    seat.wait_asking()
    request.cancel()
    last = world.enqueue(2, BOTH)
    other.share.free()
    assert last in joined(thread, pulled)
