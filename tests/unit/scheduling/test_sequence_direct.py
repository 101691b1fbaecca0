"""Batches of the strategy `direct`: slots, padding, delays."""

import numpy as np
import pytest

from charonia.core.tensor import Tensor
from charonia.scheduling.build import SchedulingAids
from tests.unit.scheduling.sequence_world import BOTH, END, START, SequenceWorld, control

DELAYED = "direct { max_queue_delay_microseconds: 500 minimum_slot_utilization: 0.5 }"


def ids(batch):
    return [None if request.is_padding else request.correlation_id for request in batch]


def test_neither_strategy_is_direct():
    world = SequenceWorld("")
    for number in (1, 2):
        world.enqueue(number, START)
    assert world.run() == [(1, 1, 0), (2, 1, 0)]
    world.enqueue(2)
    assert world.run() == [None, (2, 0, 0)]


def test_one_request_of_each_sequence_in_a_batch():
    world = SequenceWorld()
    for flags in (START, 0, END):
        for number in (1, 2, 3):
            world.enqueue(number, flags)
    assert world.run() == [(1, 1, 0), (2, 1, 0), (3, 1, 0)]
    assert world.run() == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]
    assert world.run() == [(1, 0, 1), (2, 0, 1), (3, 0, 1)]
    assert world.run() == []
    assert world.scheduler.sequence_count == 0


def test_no_batch_before_the_last_one_is_settled():
    world = SequenceWorld()
    world.enqueue(1, START)
    world.enqueue(2, START)
    first = world.pull()
    world.enqueue(1)
    world.enqueue(3, START)
    assert world.pull() == ()
    world.answer(first[0])
    assert world.pull() == ()
    world.answer(first[1])
    assert ids(world.pull()) == [1, None, 3]


def test_a_decoupled_model_goes_on_with_those_that_are_answered():
    world = SequenceWorld(more="model_transaction_policy { decoupled: true }")
    world.enqueue(1, START)
    world.enqueue(2, START)
    first = world.pull()
    world.enqueue(1)
    world.enqueue(2)
    world.answer(first[1])
    assert ids(world.pull()) == [None, 2]


def test_a_slot_is_taken_again_from_below():
    world = SequenceWorld()
    for number in (1, 2, 3):
        world.enqueue(number, BOTH if number == 2 else START)
    world.run()
    for number in (4, 5, 1, 3):
        world.enqueue(number, START)
    assert ids(world.pull()) == [1, 4, 3, 5]


def test_slots_of_several_instances_are_taken_evenly():
    world = SequenceWorld(seats=("a", "b"))
    for number in (1, 2, 3, 4, 5):
        world.enqueue(number, START)
    assert ids(world.pull("a")) == [1, 3, 5]
    assert ids(world.pull("b")) == [2, 4]


def test_padding_looks_like_its_neighbour_with_zeros():
    world = SequenceWorld()
    inputs = {
        "INPUT0": Tensor.from_numpy("INPUT0", np.full((1, 2, 3), 7, np.float32)),
        "TEXT": Tensor.from_numpy("TEXT", np.array([[b"ab", b"c"]], np.object_)),
    }
    world.enqueue(1, START)
    world.enqueue(2, START, inputs=inputs, shape_key=2)
    padding = world.run()
    world.enqueue(2, inputs=inputs, shape_key=2)
    assert padding == [(1, 1, 0), None]
    padding, real = world.pull()
    assert padding.is_padding
    assert real.correlation_id == 2
    assert padding.inputs["INPUT0"].numpy().tolist() == np.zeros((1, 2, 3)).tolist()
    assert padding.inputs["TEXT"].numpy().tolist() == [[b"", b""]]
    assert [control(padding, name) for name in ("START", "END", "READY", "CORRID")] == [0, 0, 0, 0]
    assert real.inputs["INPUT0"].numpy().max() == 7


def test_what_has_another_shape_waits_for_its_own_batch():
    """Up to the highest slot that has something, as in Triton: also behind the last one that fits."""
    world = SequenceWorld()
    for number, key in ((1, "a"), (2, "b"), (3, "a"), (4, "b")):
        world.enqueue(number, START, shape_key=key)
    assert world.run() == [(1, 1, 0), None, (3, 1, 0), None]
    assert world.run() == [None, (2, 1, 0), None, (4, 1, 0)]
    assert world.run() == []


def test_padding_is_not_pending_and_is_never_told_of():
    world = SequenceWorld()
    world.enqueue(1, BOTH)
    world.enqueue(2, START)
    world.run()
    last = world.enqueue(2, END)
    assert world.scheduler.pending_count == 1
    assert world.run() == [None, (2, 0, 1)]
    assert world.scheduler.pending_count == 0
    assert len(world.channel.replies) == 3
    assert world.channel.of(last).error is None


def test_a_batch_waits_for_enough_slots():
    world = SequenceWorld(DELAYED)
    world.enqueue(1, START)
    assert world.pull() == ()
    world.enqueue(2, START)
    assert ids(world.pull()) == [1, 2]


def test_a_batch_does_not_wait_for_longer_than_the_delay():
    world = SequenceWorld(DELAYED)
    world.enqueue(1, START)
    world.clock.advance(us=499)
    assert world.pull() == ()
    world.clock.advance(us=1)
    assert ids(world.pull()) == [1]


@pytest.mark.parametrize(
    "batching", ["direct { max_queue_delay_microseconds: 500 }", "direct { minimum_slot_utilization: 1 }"]
)
def test_a_delay_needs_both_settings(batching):
    world = SequenceWorld(batching)
    world.enqueue(1, START)
    assert ids(world.pull()) == [1]


def test_nobody_waits_for_others_when_no_more_come():
    world = SequenceWorld(DELAYED)
    world.enqueue(1, START)
    world.scheduler.hasten()
    assert ids(world.pull()) == [1]


def test_a_model_that_does_not_batch_has_one_slot():
    world = SequenceWorld(rows=0)
    world.enqueue(1, START)
    world.enqueue(2, START)
    assert ids(world.pull()) == [1]
    assert world.pull() == ()


def test_the_start_waits_for_requests_and_for_the_backlog():
    world = SequenceWorld(rows=1, seats=("a", "b"), aids=SchedulingAids(start_at=3, backlog_start_at=2))
    world.enqueue(1, START)
    world.enqueue(1)
    world.enqueue(2, START)
    world.enqueue(3, START)
    assert world.pull("a") == ()
    world.enqueue(4, START)
    assert ids(world.pull("a")) == [1]
    assert ids(world.pull("b")) == [2]
