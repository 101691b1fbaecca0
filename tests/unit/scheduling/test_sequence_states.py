"""The state of a sequence beside its requests: whose it is, and when it is new."""

import numpy as np
import pytest

from charonia.core.tensor import Tensor
from charonia.scheduling.state import state_store
from tests.unit.scheduling.sequence_world import CONTROLS, END, IDLE_US, START, SequenceWorld, config_of

STATE = 'state { input_name: "IN_STATE" output_name: "OUT_STATE" data_type: TYPE_INT32 dims: [ -1 ] }'


@pytest.fixture(params=["direct { }", "oldest { }"])
def world(request, tmp_path):
    controls = CONTROLS + STATE
    states = state_store(config_of(request.param, controls=controls), tmp_path)
    return SequenceWorld(request.param, controls=controls, states=states)


def run(world, kept=()):
    """What each request of the next batch got as its state; `kept` is the next state of each."""
    batch = [request for request in world.pull() if not request.is_padding]
    seen = [request.inputs["IN_STATE"].numpy().tolist() for request in batch]
    for request, state in zip(batch, kept, strict=True):
        request.turn.state.keep([Tensor.from_numpy("OUT_STATE", np.array([state], np.int32))])
        world.answer(request)
    return seen


def test_the_next_request_gets_what_the_last_one_left(world):
    for number in (1, 2):
        for flags in (START, 0, END):
            world.enqueue(number, flags)
    assert run(world, ([1], [2])) == [[[0]], [[0]]]
    assert run(world, ([3], [4])) == [[[1]], [[2]]]
    assert run(world, ([5], [6])) == [[[3]], [[4]]]


def test_a_start_in_the_middle_begins_with_a_new_state(world):
    for flags in (START, START, 0):
        world.enqueue(1, flags)
    assert run(world, ([7],)) == [[[0]]]
    assert run(world, ([8],)) == [[[0]]]
    assert run(world, ([9],)) == [[[8]]]


def test_a_late_answer_reaches_nobody(world):
    world.enqueue(1, START)
    (late,) = world.pull()
    state = late.turn.state
    world.enqueue(1, START)
    world.answer(late)
    state.keep([Tensor.from_numpy("OUT_STATE", np.array([[99]], np.int32))])
    assert run(world, ([1],)) == [[[0]]]


@pytest.mark.parametrize("end", ["idle", "cancelled", "last request"])
def test_the_next_in_the_slot_finds_no_state(world, end):
    world.enqueue(1, START)
    run(world, ([99],))
    if end == "idle":
        world.advance(us=IDLE_US)
    elif end == "cancelled":
        world.enqueue(1).cancel()
    else:
        world.enqueue(1, END)
        run(world, ([98],))
    for number in (1, 2):
        world.enqueue(number, START)
    assert run(world, ([1], [2])) == [[[0]], [[0]]]


def test_states_of_different_shapes_are_not_joined(world):
    for number in (1, 2, 3):
        world.enqueue(number, START)
        world.enqueue(number)
    run(world, ([1], [2], [3, 3]))
    assert run(world, ([1], [2])) == [[[1]], [[2]]]
    assert run(world, ([3],)) == [[[3, 3]]]


def test_padding_has_a_state_of_zeros(tmp_path):
    controls = CONTROLS + STATE
    world = SequenceWorld(controls=controls, states=state_store(config_of(controls=controls), tmp_path))
    world.enqueue(1, START)
    world.enqueue(2, START)
    run(world, ([5, 5], [6, 6]))
    world.enqueue(2)
    padding, real = world.pull()
    assert padding.inputs["IN_STATE"].numpy().tolist() == [[0, 0]]
    assert padding.turn is None
    assert real.inputs["IN_STATE"].numpy().tolist() == [[6, 6]]


def test_sequences_outlive_a_process_where_the_server_has_their_state(world):
    world.enqueue(1, START)
    run(world, ([5],))
    world.scheduler.lost("a")
    world.enqueue(1)
    assert run(world, ([6],)) == [[[5]]]
