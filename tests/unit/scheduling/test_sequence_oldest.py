"""Batches of the strategy `oldest`: one request of each sequence, batched as dynamic batching does."""

from charonia.core.errors import CancelledError
from charonia.core.request import Reply, refuse
from charonia.scheduling.build import SchedulingAids
from tests.unit.scheduling.sequence_world import BOTH, END, START, SequenceWorld


def ids(batch):
    return [request.correlation_id for request in batch]


def test_one_request_of_each_sequence_at_a_time_and_no_padding():
    world = SequenceWorld("oldest { }")
    for flags in (START, 0, END):
        for number in (1, 2, 3):
            world.enqueue(number, flags)
    first = world.pull()
    assert ids(first) == [1, 2, 3]
    assert world.pull() == ()
    world.answer(first[1])
    assert ids(world.pull()) == [2]
    world.answer(first[0])
    world.answer(first[2])
    assert world.run() == [(1, 0, 0), (3, 0, 0)]


def test_who_has_been_ready_for_longest_comes_first():
    world = SequenceWorld("oldest { max_candidate_sequences: 8 }", rows=2)
    for number in (1, 2, 3):
        world.enqueue(number, START)
        world.enqueue(number)
    assert world.run() == [(1, 1, 0), (2, 1, 0)]
    assert world.run() == [(3, 1, 0), (1, 0, 0)]
    assert world.run() == [(2, 0, 0), (3, 0, 0)]


def test_candidates_are_limited_for_each_instance():
    world = SequenceWorld("oldest { max_candidate_sequences: 2 }", seats=("a", "b"), rows=8)
    for number in range(1, 6):
        world.enqueue(number, BOTH)
    assert world.run("a") == [(1, 1, 1), (3, 1, 1)]
    assert world.run("a") == [(5, 1, 1)]
    assert world.run("b") == [(2, 1, 1), (4, 1, 1)]


def test_preferred_sizes_and_the_delay():
    world = SequenceWorld("oldest { preferred_batch_size: 2 max_queue_delay_microseconds: 100 }")
    world.enqueue(1, START)
    assert world.pull() == ()
    world.enqueue(2, START)
    assert ids(world.pull()) == [1, 2]
    world.enqueue(3, START)
    world.clock.advance(us=99)
    assert world.pull() == ()
    world.clock.advance(us=1)
    assert ids(world.pull()) == [3]


def test_the_delay_counts_from_when_a_request_is_the_first_of_its_sequence():
    world = SequenceWorld("oldest { preferred_batch_size: 2 max_queue_delay_microseconds: 100 }")
    world.enqueue(1, START)
    world.enqueue(1)
    world.clock.advance(us=100)
    world.run()
    assert world.pull() == ()
    world.clock.advance(us=100)
    assert ids(world.pull()) == [1]


def test_shapes_that_differ_are_not_joined():
    world = SequenceWorld("oldest { }")
    for number, key in ((1, "a"), (2, "a"), (3, "b"), (4, "a")):
        world.enqueue(number, START, shape_key=key)
    assert [ids(world.pull()) for _ in range(3)] == [[1, 2], [3], [4]]


def test_a_model_that_does_not_batch_takes_one_after_the_other():
    world = SequenceWorld("oldest { max_candidate_sequences: 3 }", rows=0)
    for number in (1, 2):
        world.enqueue(number, START)
    assert ids(world.pull()) == [1]
    assert ids(world.pull()) == [2]


def test_answers_leave_in_order_where_that_is_asked_for():
    world = SequenceWorld("oldest { preserve_ordering: true }")
    requests = [world.enqueue(number, START) for number in (1, 2, 3)]
    late = world.enqueue(1)
    for request in reversed(world.pull()):
        world.answer(request)
    assert [reply.request for reply in world.channel.replies] == requests
    world.run()
    assert world.channel.replies[-1].request is late


def test_an_order_is_not_held_up_by_the_backlog_or_by_refusals():
    world = SequenceWorld("oldest { max_candidate_sequences: 1 preserve_ordering: true }")
    first, waiting, gone = world.enqueue(1, START), world.enqueue(2, START), world.enqueue(3, START)
    after = world.enqueue(1, END)
    gone.cancel()
    assert isinstance(world.channel.of(gone).error, CancelledError)
    world.run()
    world.run()
    assert [reply.request for reply in world.channel.replies] == [gone, first, after]
    world.run()
    assert world.channel.replies[-1].request is waiting


def test_each_instance_starts_when_enough_of_its_sequences_wait():
    world = SequenceWorld("oldest { }", aids=SchedulingAids(start_at=2, backlog_start_at=9))
    world.enqueue(1, START)
    world.enqueue(1)
    assert world.pull() == ()
    world.enqueue(2, START)
    assert ids(world.pull()) == [1, 2]


def test_a_failed_request_does_not_end_its_sequence():
    world = SequenceWorld("oldest { }")
    world.enqueue(1, START)
    world.enqueue(1)
    (request,) = world.pull()
    refuse(request, CancelledError("said by the model, not by the client"))
    assert isinstance(world.channel.replies[0], Reply)
    assert world.run() == [(1, 0, 0)]
