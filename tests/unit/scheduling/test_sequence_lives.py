"""Sequences begin, wait for a slot, go on and end: by a last request, by idling, by cancellation, with an instance."""

import threading
import weakref

import pytest

from charonia.core.errors import CancelledError, InvalidArgumentError, QueueTimeoutError, UnavailableError
from charonia.testing.requests import make_request
from tests.unit.scheduling.sequence_world import BOTH, END, IDLE_US, START, SequenceWorld, told

STRATEGIES = ["direct { }", "oldest { }"]
ONE_SLOT = {"direct { }": {"rows": 1}, "oldest { max_candidate_sequences: 1 }": {"rows": 4}}
FREE_IDS = 'control_input [ { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } ]'


@pytest.fixture(params=STRATEGIES)
def world(request):
    return SequenceWorld(request.param)


@pytest.fixture(params=ONE_SLOT)
def narrow(request):
    """One instance that has one sequence at a time."""
    return SequenceWorld(request.param, **ONE_SLOT[request.param])


def ids(batch):
    return [request.correlation_id for request in batch if not request.is_padding]


@pytest.mark.parametrize("id", [0, ""])
def test_a_request_without_an_id(world, id):
    with pytest.raises(InvalidArgumentError, match="'m' must specify a non-zero or non-empty correlation ID"):
        world.enqueue(id, START)


def test_a_request_of_several_rows(world):
    with pytest.raises(
        InvalidArgumentError, match="'m' must specify batch-size 1 due to requirements of sequence batcher, got 2"
    ):
        world.enqueue(1, START, rows=2)


@pytest.mark.parametrize("flags", [0, END])
def test_a_sequence_that_was_not_started(world, flags):
    with pytest.raises(
        InvalidArgumentError, match="for sequence 7 to model 'm' must specify the START flag on the first"
    ):
        world.enqueue(7, flags)
    assert world.scheduler.sequence_count == 0


@pytest.mark.parametrize("last", [END, BOTH])
def test_nothing_comes_after_the_end(world, last):
    if last == END:
        world.enqueue(7, START)
    world.enqueue(7, last)
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        world.enqueue(7)
    while world.run():
        pass
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        world.enqueue(7)
    assert world.scheduler.sequence_count == 0


def test_a_number_and_a_text_are_two_sequences():
    world = SequenceWorld(controls=FREE_IDS)
    world.enqueue(7, START)
    with pytest.raises(InvalidArgumentError):
        world.enqueue("7")
    world.enqueue("7", START)
    assert ids(world.pull()) == [7, "7"]


def test_a_long_text_is_an_id():
    world = SequenceWorld(controls=FREE_IDS)
    for flags in (START, END):
        world.enqueue("ä" * 64, flags)
        world.answer(world.pull()[0])
    assert world.scheduler.sequence_count == 0


def test_a_start_in_the_middle_starts_again_in_the_same_slot(narrow):
    narrow.enqueue(7, START)
    narrow.enqueue(7, START)
    narrow.enqueue(7, END)
    assert [narrow.run() for _ in range(3)] == [[(7, 1, 0)], [(7, 1, 0)], [(7, 0, 1)]]


def test_who_came_first_gets_the_next_slot_with_all_that_waits(narrow):
    for number, flags in ((1, START), (2, START), (3, START), (2, 0), (2, END), (1, END), (3, END)):
        narrow.enqueue(number, flags)
    assert narrow.scheduler.pending_count == 7
    ran = [narrow.run()[0] for _ in range(7)]
    assert ran == [(1, 1, 0), (1, 0, 1), (2, 1, 0), (2, 0, 0), (2, 0, 1), (3, 1, 0), (3, 0, 1)]
    assert narrow.run() == []


def test_the_next_sequence_of_an_id_waits_for_the_end_of_the_last(world):
    """Side by side in one instance, a model that goes by the id would mix them."""
    world.enqueue(7, START)
    world.enqueue(7, END)
    world.enqueue(7, START)
    world.enqueue(8, START)
    assert world.run() == [(7, 1, 0), (8, 1, 0)]
    (last,) = world.pull()
    assert told(last) == (7, 0, 1)
    assert ids(world.pull()) == []
    world.answer(last)
    assert world.run() == [(7, 1, 0)]


def test_a_sequence_that_waits_for_its_forerunner_holds_up_nobody(narrow):
    narrow.enqueue(7, BOTH)
    running = narrow.pull()
    narrow.enqueue(7, BOTH)
    narrow.enqueue(8, BOTH)
    narrow.answer(running[0])
    assert narrow.run() == [(7, 1, 1)]
    assert narrow.run() == [(8, 1, 1)]


def test_who_follows_waits_for_all_of_its_forerunners(world):
    """Also when one of them was cancelled before it had its turn."""
    world.enqueue(7, BOTH)
    (first,) = world.pull()
    second, third, fourth = (world.enqueue(7, BOTH) for _ in range(3))
    fourth.cancel()
    world.enqueue(7, BOTH)
    second.cancel()
    third.cancel()
    assert ids(world.pull()) == []
    world.answer(first)
    assert world.run() == [(7, 1, 1)]


def test_an_idle_sequence_ends_and_says_so(world):
    world.enqueue(7, START)
    world.run()
    world.advance(us=IDLE_US - 1)
    assert world.scheduler.sequence_count == 1
    world.advance(us=1)
    assert world.scheduler.sequence_count == 0
    assert world.ended == [("a", 7, "idle")]
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        world.enqueue(7)


@pytest.mark.parametrize(("idle_us", "limit"), [(60_000_000, "60 s"), (1_500_000, "1.5 s"), (2_000, "0.002 s")])
def test_the_refusal_of_what_was_not_started_says_when_idle_sequences_end(idle_us, limit):
    world = SequenceWorld(idle_us=idle_us)
    world.enqueue(7, START)
    world.run()
    world.advance(us=idle_us)
    with pytest.raises(InvalidArgumentError, match=f"; a sequence without requests for {limit} has ended$"):
        world.enqueue(7)


def test_each_request_begins_the_idle_time_anew(world):
    world.enqueue(7, START)
    for _ in range(5):
        world.run()
        world.advance(us=IDLE_US * 2 // 3)
        world.enqueue(7)
    assert world.ended == []


def test_what_waits_or_is_executed_is_not_idle(narrow):
    narrow.enqueue(7, START)
    narrow.enqueue(8, START)
    (running,) = narrow.pull()
    narrow.advance(us=3 * IDLE_US)
    assert narrow.scheduler.sequence_count == 2
    narrow.answer(running)
    narrow.advance(us=IDLE_US)
    assert narrow.run() == [(8, 1, 0)]
    assert narrow.ended == [("a", 7, "idle")]


def test_fifty_abandoned_sequences_make_room_for_fifty_others(world):
    for first in (0, 50):
        for number in range(first + 1, first + 51):
            world.enqueue(number, START)
        ran = []
        for _ in range(20):
            ran += [each for each in world.run() if each is not None]
            world.advance(us=IDLE_US)
        assert sorted(ran) == [(number, 1, 0) for number in range(first + 1, first + 51)]
        assert world.scheduler.sequence_count == 0
    assert len(world.ended) == 100


def test_the_timer_has_one_call_however_many_sequences_there_are(world):
    for number in range(1, 200):
        world.enqueue(number, START, timeout_us=10 * IDLE_US)
        world.run()
    assert len(world.timer._entries) <= 2


def test_a_request_of_a_waiting_sequence_that_is_cancelled_takes_the_others_with_it(narrow):
    narrow.enqueue(1, START)
    narrow.pull()
    others = [narrow.enqueue(2, START), narrow.enqueue(2), narrow.enqueue(2)]
    others[1].cancel()
    errors = [narrow.channel.of(request).error for request in others]
    assert [type(error) for error in errors] == [CancelledError] * 3
    assert "the request was cancelled" in str(errors[1])
    assert "a request of sequence 2, and with it this one, was cancelled" in str(errors[2])
    assert [reason for _, reason in narrow.refused] == ["CANCELED"] * 3
    assert narrow.ended == []  # no instance has heard of it
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        narrow.enqueue(2)


def test_a_cancelled_sequence_frees_its_slot_once_nothing_of_it_is_executed(narrow):
    narrow.enqueue(1, START)
    (running,) = narrow.pull()
    waiting = [narrow.enqueue(1), narrow.enqueue(1)]
    narrow.enqueue(2, START)
    waiting[1].cancel()
    assert all(request.settled for request in waiting)
    assert ids(narrow.pull()) == []
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        narrow.enqueue(1)
    narrow.answer(running)
    assert narrow.channel.of(running).error is None
    assert narrow.ended == [("a", 1, "cancelled")]
    assert narrow.run() == [(2, 1, 0)]


def test_a_request_that_is_cancelled_while_it_is_executed_ends_its_sequence(narrow):
    narrow.enqueue(1, START)
    waiting = narrow.enqueue(1)
    (running,) = narrow.pull()
    running.cancel()
    assert not waiting.settled
    narrow.answer(running)
    assert isinstance(narrow.channel.of(waiting).error, CancelledError)
    assert narrow.ended == [("a", 1, "cancelled")]
    assert narrow.scheduler.sequence_count == 0


def test_a_sequence_of_which_a_request_was_cancelled_while_it_is_executed_may_be_started_again(narrow):
    narrow.enqueue(1, START)
    waiting = narrow.enqueue(1)
    (running,) = narrow.pull()
    running.cancel()
    again = [narrow.enqueue(1, START), narrow.enqueue(1, END)]
    assert narrow.pull() == ()
    narrow.answer(running)
    assert isinstance(narrow.channel.of(waiting).error, CancelledError)
    assert narrow.ended == [("a", 1, "cancelled")]
    assert [narrow.run(), narrow.run()] == [[(1, 1, 0)], [(1, 0, 1)]]
    assert [narrow.channel.of(request).error for request in again] == [None, None]
    assert narrow.scheduler.sequence_count == 0


def test_what_goes_on_with_a_sequence_that_was_cancelled_ends_with_it(narrow):
    narrow.enqueue(1, START)
    (running,) = narrow.pull()
    running.cancel()
    late = narrow.enqueue(1)
    narrow.answer(running)
    assert isinstance(narrow.channel.of(late).error, CancelledError)


def test_a_request_that_was_cancelled_before_it_came(narrow):
    request = make_request(narrow.channel, correlation_id=1, flags=START)
    request.cancelled = True
    narrow.scheduler.enqueue(request)
    assert isinstance(narrow.channel.of(request).error, CancelledError)
    assert narrow.scheduler.sequence_count == 0


def test_a_cancelled_sequence_may_be_started_again(narrow):
    first = narrow.enqueue(1, START)
    first.cancel()
    narrow.enqueue(1, START)
    assert narrow.run() == [(1, 1, 0)]


def test_a_sequence_waits_for_a_slot_no_longer_than_its_requests_may(narrow):
    narrow.enqueue(1, START, timeout_us=5)  # has a slot: nothing expires there
    narrow.pull()
    patient = narrow.enqueue(2, START)
    requests = [narrow.enqueue(3, START, timeout_us=9000), narrow.enqueue(3, timeout_us=1000), narrow.enqueue(3)]
    narrow.advance(us=999)
    assert not requests[1].settled
    narrow.advance(us=1)
    errors = [narrow.channel.of(request).error for request in requests]
    assert [type(error) for error in errors] == [QueueTimeoutError] * 3
    assert "timeout of the corresponding sequence has been expired: sequence 3 got no slot of model 'm'" in str(
        errors[0]
    )
    assert [reason for _, reason in narrow.refused] == ["REJECTED"] * 3
    assert not patient.settled
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        narrow.enqueue(3)


def test_with_a_slot_nothing_expires(narrow):
    narrow.enqueue(1, BOTH)
    (running,) = narrow.pull()
    late = narrow.enqueue(2, START, timeout_us=1000)
    narrow.answer(running)
    narrow.advance(us=5000)
    assert not late.settled


def test_an_instance_that_leaves_gets_no_new_sequences(world):
    world.scheduler.expect(["b"])
    for number in (1, 2):
        world.enqueue(number, START)
    world.scheduler.dismiss(["b"])
    for number in (3, 4, 2):
        world.enqueue(number, START if number > 2 else END)
    assert world.run("a") == [(1, 1, 0), (3, 1, 0), (4, 1, 0)]
    assert [world.run("b"), world.run("b"), world.pull("b")] == [[(2, 1, 0)], [(2, 0, 1)], None]


def test_an_instance_that_leaves_goes_once_its_sequences_are_over(world):
    world.enqueue(1, START)
    world.run()
    world.scheduler.expect(["b"])
    world.scheduler.dismiss(["a"])
    world.enqueue(1, END)
    world.enqueue(2, START)
    assert world.run("a") == [(1, 0, 1)]
    assert world.run("b") == [(2, 1, 0)]
    assert world.pull("a") is None


def test_an_idle_instance_that_leaves_goes_at_once(world):
    world.scheduler.expect(["b"])
    ended = []
    thread = threading.Thread(target=lambda: ended.append(world.scheduler.next_batch(None, "a")))
    thread.start()
    world.scheduler.dismiss(["a"])
    thread.join(10)
    assert ended == [None]


def test_sequences_of_a_process_that_died_are_over(narrow):
    narrow.enqueue(1, START)
    narrow.run()
    waiting = narrow.enqueue(1)
    later = narrow.enqueue(2, START)
    narrow.scheduler.lost("a")
    error = narrow.channel.of(waiting).error
    assert isinstance(error, UnavailableError)
    assert "sequence 1 of model 'm' is over: the process of the instance that had it died; start it again" in str(error)
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        narrow.enqueue(1)
    assert not later.settled
    assert narrow.run() == [(2, 1, 0)]
    assert narrow.ended == []


def test_what_a_dead_process_had_is_over_when_its_failure_has_been_sent(narrow):
    narrow.enqueue(1, START)
    waiting = narrow.enqueue(1)
    (running,) = narrow.pull()
    running.settle(keeps_turn=True)
    narrow.scheduler.lost("a")
    assert "start it again" in narrow.error_of(waiting)
    assert narrow.scheduler.sequence_count == 1
    running.turn.release()
    assert narrow.scheduler.sequence_count == 0


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_sequence_of_which_the_dead_process_had_nothing_goes_on(narrow, is_sent):
    """The failure of what the process had frees its slot for the next one, before anybody tells of the death."""
    narrow.enqueue(1, BOTH)
    (running,) = narrow.pull()
    later = [narrow.enqueue(2, flags) for flags in (START, 0, END)]
    if is_sent:
        narrow.answer(running)
    else:
        running.settle(keeps_turn=True)
    narrow.scheduler.lost("a")
    if not is_sent:
        running.turn.release()
    assert [narrow.run() for _ in later] == [[(2, 1, 0)], [(2, 0, 0)], [(2, 0, 1)]]
    assert narrow.refused == []


def test_a_first_request_that_waits_for_the_next_process_begins_its_sequence_there(narrow):
    """It was handed out before anybody knew of the death."""
    narrow.enqueue(1, START)
    (running,) = narrow.pull()
    waiting = narrow.enqueue(1)
    narrow.scheduler.lost("a")
    narrow.answer(running)
    narrow.enqueue(1, END)
    assert [narrow.run(), narrow.run()] == [[(1, 0, 0)], [(1, 0, 1)]]
    assert narrow.channel.of(running).error is narrow.channel.of(waiting).error is None


def test_a_sequence_that_begins_anew_does_so_in_the_next_process(narrow):
    narrow.enqueue(1, START)
    narrow.run()
    narrow.enqueue(1, START)
    narrow.enqueue(1, END)
    narrow.scheduler.lost("a")
    assert [narrow.run(), narrow.run()] == [[(1, 1, 0)], [(1, 0, 1)]]


def test_the_next_process_does_not_begin_in_the_middle(narrow):
    """What was handed out when the process died is answered; what the next process makes of it is dropped."""
    narrow.enqueue(1, START)
    narrow.run()
    running = narrow.enqueue(1)
    narrow.pull()
    narrow.scheduler.lost("a")
    assert "start it again" in narrow.error_of(running)
    assert narrow.scheduler.sequence_count == 0
    narrow.answer(running)
    assert len(narrow.channel.replies) == 2
    narrow.enqueue(1, START)
    assert narrow.run() == [(1, 1, 0)]


def test_a_sequence_may_be_ended_from_outside(narrow):
    narrow.enqueue(1, START)
    narrow.run()
    narrow.scheduler.end_sequence(2)
    narrow.scheduler.end_sequence(1)
    assert narrow.scheduler.sequence_count == 0
    assert narrow.ended == [("a", 1, "cancelled")]


@pytest.mark.parametrize("last", [0, END])
def test_what_waits_of_a_sequence_that_is_ended_from_outside_is_cancelled(narrow, last):
    narrow.enqueue(1, START)
    waiting = [narrow.enqueue(1), narrow.enqueue(1, last)]
    (running,) = narrow.pull()
    narrow.scheduler.end_sequence(1)
    assert [type(narrow.channel.of(request).error) for request in waiting] == [CancelledError] * 2
    assert narrow.scheduler.pending_count == 0
    narrow.answer(running)
    assert narrow.channel.of(running).error is None
    assert narrow.ended == [("a", 1, "cancelled")]
    assert narrow.scheduler.sequence_count == 0


def test_a_last_request_that_is_executed_is_not_ended_from_outside(narrow):
    narrow.enqueue(1, BOTH)
    (running,) = narrow.pull()
    narrow.scheduler.end_sequence(1)
    narrow.answer(running)
    assert narrow.channel.of(running).error is None
    assert narrow.ended == []


def test_a_sequence_without_a_slot_that_is_ended_from_outside(narrow):
    narrow.enqueue(1, START)
    waiting = narrow.enqueue(2, BOTH)
    narrow.scheduler.end_sequence(2)
    assert isinstance(narrow.channel.of(waiting).error, CancelledError)
    assert narrow.scheduler.sequence_count == 1


def test_a_version_that_is_unloaded_takes_slots_from_the_idle(narrow):
    narrow.enqueue(1, START)
    narrow.run()
    narrow.enqueue(2, BOTH)
    narrow.enqueue(3, BOTH)
    narrow.scheduler.hasten()
    assert narrow.run() == [(2, 1, 1)]
    assert narrow.run() == [(3, 1, 1)]
    assert narrow.ended == [("a", 1, "idle")]


def test_a_stop_refuses_what_waits_and_lets_go_on_what_is_executed(narrow):
    running = narrow.enqueue(1, START)
    waiting = [narrow.enqueue(1), narrow.enqueue(2, START)]
    narrow.pull()
    narrow.scheduler.stop()
    assert [type(narrow.channel.of(request).error) for request in waiting] == [UnavailableError] * 2
    assert "model 'm' was unloaded" in narrow.error_of(waiting[0])
    assert not running.settled
    running.cancel()
    narrow.answer(running)
    assert narrow.pull() is None
    with pytest.raises(UnavailableError, match="is being unloaded"):
        narrow.enqueue(3, START)


def test_a_stop_wakes_every_instance(world):
    world.scheduler.expect(["b"])
    ended = []
    threads = [
        threading.Thread(target=lambda seat=seat: ended.append(world.scheduler.next_batch(None, seat))) for seat in "ab"
    ]
    for thread in threads:
        thread.start()
    world.scheduler.stop()
    for thread in threads:
        thread.join(10)
    assert ended == [None, None]


def test_a_waiting_instance_wakes_for_its_sequence_and_only_for_that(world):
    world.scheduler.expect(["b"])
    pulled = []
    thread = threading.Thread(target=lambda: pulled.append(ids(world.scheduler.next_batch(None, "b"))))
    thread.start()
    world.enqueue(1, START)
    world.enqueue(2, START)
    thread.join(10)
    assert pulled == [[2]]
    assert ids(world.pull("a")) == [1]


def test_whoever_is_told_may_ask_again():
    """Outside of every lock: a client that is refused submits its next request from there."""
    world = SequenceWorld(rows=1)
    world.enqueue(1, START)
    world.pull()
    request = world.enqueue(2, START)

    class Impatient:
        def send(self, replies):
            world.enqueue(3, START)

    request.channel = Impatient()
    request.cancel()
    assert world.scheduler.pending_count == 1


def test_thousands_of_sequences_of_one_id_do_not_slow_one_another(narrow):
    """Each waits for the one before it; nobody looks through all of them for every request."""
    for _ in range(5000):
        narrow.enqueue(7, BOTH)
    for _ in range(5000):
        assert narrow.run() == [(7, 1, 1)]
    assert narrow.scheduler.sequence_count == 0


def test_cancelled_sequences_leave_nothing_behind_one_that_waits(narrow):
    narrow.enqueue(1, START)
    narrow.enqueue(2, START)
    gone = [weakref.ref(narrow.enqueue(number, START, timeout_us=10**9)) for number in range(3, 1000)]
    for reference in gone:
        reference().cancel()
    narrow.channel.replies.clear()
    narrow.refused.clear()
    assert sum(reference() is not None for reference in gone) < 100
