"""A right request made wrong in any way is refused with one code through every door, and the next one is answered."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from charonia.core.datatypes import DATATYPES
from tests.every_door.bytes_doors import Ask, Block
from tests.every_door.doors import RefusedError
from tests.models import onnx_models
from tests.models.repository import write_config


def lay_out(repository):
    onnx_models.save(onnx_models.add_sub("INT32"), repository, "add_sub")
    write_config(repository, "add_sub", "max_batch_size: 4")


def ints(name, rows, value):
    return Block(name, "INT32", (rows, 16), np.full(rows * 16, value, np.int32).tobytes())


RIGHT = Ask("add_sub", (ints("INPUT0", 2, 5), ints("INPUT1", 2, 3)), "", ("OUTPUT0",))


@st.composite
def changed_inputs(draw):
    """The two inputs, one of them changed or left out or there twice."""
    first, second = draw(st.permutations(RIGHT.inputs))
    wrong = draw(st.sampled_from([renamed, retyped, reshaped, resized, rebatched, left_out, doubled, added]))
    return tuple(draw(st.permutations([first, *wrong(draw, second)])))


def renamed(draw, block):
    name = draw(st.text(max_size=8).filter(lambda name: name not in ("INPUT0", "INPUT1") and is_text(name)))
    return [replace(block, name=name)]


def is_text(name):
    """Lone surrogates are no text that a protobuf could hold."""
    return name.encode("utf-8", "replace").decode() == name


def retyped(draw, block):
    datatype = draw(st.sampled_from([name for name in DATATYPES if name not in ("INT32", "BYTES")]))
    size = DATATYPES[datatype].item_size_bytes
    return [replace(block, datatype=datatype, data=bytes(size * 32))]


def reshaped(draw, block):
    shape = draw(st.lists(st.integers(0, 40), max_size=4).map(tuple).filter(lambda shape: shape[1:] != (16,)))
    count = int(np.prod(shape))
    return [replace(block, shape=shape, data=bytes(4 * count) if count < 10_000 else b"")]


def resized(draw, block):
    count = draw(st.integers(0, 64).filter(lambda count: count != 32))
    return [replace(block, data=bytes(4 * count))]


def rebatched(draw, block):
    """Other rows than the other input's, or more than the model takes."""
    rows = draw(st.sampled_from([0, 1, 3, 4, 5, 100]))
    return [ints(block.name, rows, 1)]


def left_out(draw, block):
    return []


def doubled(draw, block):
    return [block, block]


def added(draw, block):
    return [block, replace(block, name="INPUT2")]


WRONG = st.one_of(
    changed_inputs().map(lambda inputs: replace(RIGHT, inputs=inputs)),
    st.sampled_from(["nope", "add_sub ", "Add_sub"]).map(lambda model: replace(RIGHT, model=model)),
    st.sampled_from(["2", "7", "9223372036854775807"]).map(lambda version: replace(RIGHT, version=version)),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).map(lambda name: replace(RIGHT, outputs=(name,))),
)


def test_every_door_refuses_alike(doors):
    told = set()

    @settings(max_examples=120)
    @given(ask=WRONG)
    @example(ask=replace(RIGHT, inputs=(replace(RIGHT.inputs[0], shape=(), data=bytes(4)), RIGHT.inputs[1])))
    @example(ask=replace(RIGHT, inputs=()))
    def check(ask):
        codes = {door.name: refusal(door, ask) for door in doors if door.can_say(ask)}
        assert len(set(codes.values())) == 1, codes
        assert set(codes.values()) <= {"INVALID_ARGUMENT", "NOT_FOUND"}, codes
        told.update(codes.items())
        for door in doors:
            np.testing.assert_array_equal(door.ask(RIGHT)["OUTPUT0"].items(), np.full(32, 8))

    check()
    expected = {(door.name, code) for door in doors for code in ("INVALID_ARGUMENT", "NOT_FOUND")}
    assert told == expected


def refusal(door, ask):
    with pytest.raises(RefusedError) as refused:
        door.ask(ask)
    return refused.value.code
