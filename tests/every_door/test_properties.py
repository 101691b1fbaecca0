"""Any tensor of any datatype and shape comes back through every door as it was sent, to the bit."""

from math import prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from charonia.core.datatypes import DATATYPES
from tests.every_door.bytes_doors import Ask, Block, Json, join_strings, widened
from tests.models.repository import write_config

MAX_RANK = 5
IDENTITY = """
    backend: "identity"
    input [ {{ name: "INPUT0" data_type: {type} dims: [ {dims} ] }} ]
    output [ {{ name: "OUTPUT0" data_type: {type} dims: [ {dims} ] }} ]
"""


def lay_out(repository):
    for name, datatype in DATATYPES.items():
        for rank in range(1, MAX_RANK + 1):
            dims = ", ".join(["-1"] * rank)
            write_config(repository, f"{name}_{rank}", IDENTITY.format(type=datatype.config_name, dims=dims))
            (repository / f"{name}_{rank}" / "1").mkdir()


# A model of scalars has the shape [1] for clients: rank 0 is refused, which another test looks at.
SHAPES = st.lists(st.integers(0, 3), min_size=1, max_size=MAX_RANK).map(tuple)
# NaNs quiet and signalling with a payload, infinities, zeros, denormals, the largest.
SPECIAL_BITS = {
    "FP16": [0x7E00, 0x7C01, 0xFE55, 0x7C00, 0xFC00, 0x8000, 0x0001, 0x83FF, 0x7BFF],
    "BF16": [0x7FC0, 0x7F81, 0xFFD5, 0x7F80, 0xFF80, 0x8000, 0x0001, 0x807F, 0x7F7F],
    "FP32": [0x7FC00000, 0x7F800001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF],
    "FP64": [0x7FF8 << 48, (0x7FF0 << 48) + 1, 0xFFF8123456789ABC, 0x7FF0 << 48, 0x8000 << 48, 1, (0x7FF0 << 48) - 1],
}
STRINGS = st.one_of(
    st.binary(max_size=6),
    st.text(max_size=6).map(str.encode),
    st.sampled_from(
        [b"", b"\0", b"a\0", "😀".encode(), b"\xff\xfe", b"\xed\xa0\x80", b'"\\/\n\x1f\x7f', "\u2028".encode()]
    ),
)


def items(datatype):
    if datatype == "BYTES":
        return STRINGS.map(lambda string: join_strings([string]))
    size = DATATYPES[datatype].item_size_bytes
    if datatype == "BOOL":
        return st.sampled_from([b"\0", b"\1"])
    special = SPECIAL_BITS.get(datatype, [0, (1 << 8 * size) - 1, 1 << (8 * size - 1), (1 << (8 * size - 1)) - 1])
    bits = st.one_of(st.sampled_from(special), st.integers(0, (1 << 8 * size) - 1))
    return bits.map(lambda number: number.to_bytes(size, "little"))


@st.composite
def blocks(draw, datatype):
    shape = draw(SHAPES)
    count = prod(shape)
    data = b"".join(draw(st.lists(items(datatype), min_size=count, max_size=count)))
    return Block("INPUT0", datatype, shape, data)


def as_json_has_it(block):
    """JSON knows one NaN."""
    if block.datatype not in SPECIAL_BITS or not block.data:
        return block.data
    array = block.items().copy()
    array[np.isnan(widened(array))] = np.nan
    return array.tobytes()


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_door_gives_back_what_was_sent(doors, datatype):
    reached = set()

    @settings(max_examples=40)
    @given(block=blocks(datatype))
    @example(block=Block("INPUT0", datatype, (0, 3, 2, 0, 1), b""))
    def check(block):
        ask = Ask(f"{datatype}_{len(block.shape)}", (block,))
        for door in doors:
            if not door.can_say(ask):
                continue
            got = door.ask(ask)["OUTPUT0"]
            expected = as_json_has_it(block) if isinstance(door, Json) else block.data
            assert (got.datatype, got.shape, got.data) == (datatype, block.shape, expected), door.name
            reached.add(door.name)

    check()
    assert len(reached) == (4 if datatype in ("FP16", "BF16") else 5)
