"""Iterative sequences: one request that is executed turn after turn."""

import pytest

from charonia.backends.arranging import OutputArranger
from charonia.backends.batch import ExecutingBatch
from charonia.core.errors import BackendError, CancelledError, UnavailableError, UnsupportedError
from tests.unit.scheduling.sequence_world import BOTH, IDLE_US, START, SequenceWorld, told

ITERATIVE = ["iterative_sequence: true", "oldest { max_candidate_sequences: 4 } iterative_sequence: true"]
TEXT_ID = """
control_input [
  { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } },
  { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
]
"""


@pytest.fixture(params=ITERATIVE)
def world(request):
    return SequenceWorld(request.param)


def again(batch):
    for request in batch:
        request.turn.reschedule(request)


def test_start_is_told_at_the_first_turn_only(world):
    request = world.enqueue(0)
    turns = []
    for _ in range(3):
        (pulled,) = world.pull()
        assert pulled is request
        turns.append(told(pulled)[1:])
        again([pulled])
    (pulled,) = world.pull()
    world.answer(pulled)
    assert turns == [(1, 0), (0, 0), (0, 0)]
    assert world.pull() == ()
    assert world.scheduler.sequence_count == 0
    assert len(world.channel.replies) == 1


def test_requests_without_an_id_get_one_each_and_share_batches(world):
    requests = [world.enqueue(0) for _ in range(3)]
    first = world.pull()
    assert len({request.correlation_id for request in first}) == 3
    again([first[1], first[2]])
    world.answer(first[0])
    assert sorted(told(request)[0] for request in world.pull() if not request.is_padding) == [
        requests[1].correlation_id,
        requests[2].correlation_id,
    ]


def test_an_id_of_its_own_is_nobody_elses(world):
    world.enqueue(1, START)
    own = world.enqueue(0)
    assert own.correlation_id not in (0, 1)
    world.enqueue(own.correlation_id, START)
    assert len({id(request.turn) for request in world.pull()}) == 2  # the last one waits for the end of its namesake


def test_an_own_id_is_a_text_where_the_model_reads_text():
    world = SequenceWorld(ITERATIVE[0], controls=TEXT_ID)
    world.enqueue(0)
    (request,) = world.pull()
    assert request.inputs["CORRID"].numpy().tolist() == [[b"1"]]


def test_others_come_in_between(world):
    """More requests than slots: who takes another turn keeps its slot, who is done gives it away."""
    for _ in range(5):
        world.enqueue(0)
    first = world.pull()
    assert len(first) == 4
    again(first[1:])
    world.answer(first[0])
    second = world.pull()
    assert sorted(told(request)[0] for request in second) == [2, 3, 4, 5]


def test_a_start_and_end_is_a_sequence_of_one_request(world):
    world.enqueue(7, BOTH)
    (request,) = world.pull()
    assert told(request) == (7, 1, 1)
    again([request])
    (request,) = world.pull()
    assert told(request) == (7, 0, 0)
    world.answer(request)
    assert world.scheduler.sequence_count == 0


def test_a_request_between_two_turns_can_be_cancelled(world):
    request = world.enqueue(0)
    again(world.pull())
    request.cancel()
    assert isinstance(world.channel.of(request).error, CancelledError)
    assert world.ended == [("a", 1, "cancelled")]
    assert world.scheduler.sequence_count == 0


def test_a_request_that_was_cancelled_during_its_turn_gets_no_other(world):
    request = world.enqueue(0)
    (pulled,) = world.pull()
    request.cancel()
    again([pulled])
    assert isinstance(world.channel.of(request).error, CancelledError)
    assert world.pull() == ()
    assert world.scheduler.sequence_count == 0


def test_long_turns_are_not_idle(world):
    request = world.enqueue(0)
    for _ in range(3):
        batch = world.pull()
        world.advance(us=2 * IDLE_US)
        again(batch)
        world.advance(us=2 * IDLE_US)
    assert not request.settled


def test_a_request_that_comes_back_after_the_stop_is_refused(world):
    request = world.enqueue(0)
    batch = world.pull()
    world.scheduler.stop()
    again(batch)
    assert isinstance(world.channel.of(request).error, UnavailableError)
    assert world.scheduler.pending_count == 0


def test_of_a_dead_process_a_request_after_its_first_turn_is_over_and_others_are_not(world):
    requests = [world.enqueue(0) for _ in range(2)]
    again(world.pull()[:1])
    world.answer(requests[1])
    later = world.enqueue(0)
    world.scheduler.lost("a")
    assert "start it again" in world.error_of(requests[0])
    assert [request for request in world.pull() if not request.is_padding] == [later]


def executed(world):
    batch = world.pull()
    return ExecutingBatch(batch, OutputArranger([], False), None, world.clock), batch[0]


@pytest.mark.parametrize("flushes", [True, False])
def test_a_request_that_failed_takes_no_other_turn(world, flushes):
    """The same id goes on at once: it is that request's turn, not the failed one's."""
    world.enqueue(7, START)
    waiting = world.enqueue(7, START)
    batch, request = executed(world)
    batch.fail(request, BackendError("a wrong state"))
    if flushes:
        batch.flush()
        assert world.pull()[0] is waiting
    batch.reschedule(request)
    batch.close(None, "m")
    assert world.error_of(request) == "a wrong state"
    if not flushes:
        assert world.pull()[0] is waiting
    world.answer(waiting)
    assert world.channel.of(waiting).error is None
    assert world.scheduler.sequence_count == 0
    assert world.scheduler.pending_count == 0


def test_a_request_whose_process_died_takes_no_other_turn(world):
    request = world.enqueue(0)
    again(world.pull())
    batch, _ = executed(world)
    world.scheduler.lost("a")
    assert "start it again" in world.error_of(request)
    batch.reschedule(request)
    batch.close(None, "m")
    assert len(world.channel.replies) == 1
    assert world.scheduler.sequence_count == 0


def test_a_request_that_is_to_take_another_turn_while_it_is_refused(world):
    """By another thread than the one that tells of the death of its process."""
    request = world.enqueue(0)
    again(world.pull())
    batch, _ = executed(world)
    tell = world.scheduler._tell

    def reschedule_first():
        world.scheduler._tell = tell
        batch.reschedule(request)
        tell()

    world.scheduler._tell = reschedule_first
    world.scheduler.lost("a")
    batch.close(None, "m")
    assert "start it again" in world.error_of(request)
    assert world.pull() == ()
    assert world.scheduler.sequence_count == 0


@pytest.mark.parametrize("batching", ["direct { }", "oldest { }"])
def test_other_sequences_have_no_second_turn(batching):
    world = SequenceWorld(batching)
    world.enqueue(1, START)
    (request,) = world.pull()
    with pytest.raises(UnsupportedError, match="iterative_sequence: true"):
        request.turn.reschedule(request)
    world.answer(request)
    assert world.channel.of(request).error is None
