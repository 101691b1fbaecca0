"""The files of a model's process: what they may import, and their parts one by one."""

import ast
import random
import socket
import struct
import sys
import threading
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from charonia.backends.python import child
from charonia.backends.python.child import strings, wire
from charonia.backends.python.child.arena import Arena, Block, Region, memory_limit_bytes
from charonia.backends.python.child.columns import IN_FRAME, IN_FRAME_BYTES, IN_WRITER, Packer, arrays
from charonia.backends.python.child.errors import TritonError, TritonModelException
from charonia.backends.python.child.messages import InferenceRequest, InferenceResponse
from charonia.backends.python.child.model_config import ModelConfig
from charonia.backends.python.child.tensor import Tensor
from charonia.backends.python.memory import shared_file

FILES = sorted(Path(child.__file__).parent.glob("*.py"))
# ml_dtypes only where it is at hand, for BF16.
ALLOWED = set(sys.stdlib_module_names) | {"numpy", "ml_dtypes"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_python_3_8_can_read_it_and_has_what_it_imports(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        assert {name.partition(".")[0] for name in names} <= ALLOWED
    if path.name not in ("__init__.py", "__main__.py"):
        assert "from __future__ import annotations" in path.read_text()


def channels():
    left, right = socket.socketpair()
    return wire.Channel(left), wire.Channel(right)


def test_frames_arrive_as_they_were_sent():
    left, right = channels()
    left.send(wire.BATCH, 7, (1, "ä", [2.5, None], {"k": b"x"}), [b"abc", np.arange(3, dtype=np.uint8)])
    left.send(wire.DONE, 8, None)
    assert right.receive() == (wire.BATCH, 7, (1, "ä", [2.5, None], {"k": b"x"}), bytearray(b"abc\0\1\2"))
    assert right.receive() == (wire.DONE, 8, None, bytearray())


def test_frames_of_any_size_through_any_pieces():
    left, right = socket.socketpair()
    receiver = wire.Channel(right)
    rng = random.Random(5)
    frames = [(n, bytes(rng.randrange(0, 300_000))) for n in range(20)]

    def write():
        buffer = bytearray()
        sink_left, sink_right = socket.socketpair()
        sender = wire.Channel(sink_left)
        for number, payload in frames:
            thread = threading.Thread(target=sender.send, args=(wire.BATCH, number, number, [payload]))
            thread.start()
            need = 16 + len(__import__("marshal").dumps(number, 2)) + len(payload)
            got = 0
            while got < need:
                piece = sink_right.recv(need - got)
                got += len(piece)
                buffer += piece
            thread.join()
        while buffer:
            size = rng.choice((1, 7, 16, 1000, 70_000))
            left.sendall(buffer[:size])
            del buffer[:size]

    thread = threading.Thread(target=write)
    thread.start()
    for number, payload in frames:
        frame = receiver.receive()
        assert (frame.correlation, frame.meta, bytes(frame.payload)) == (number, number, payload)
    thread.join()


def test_a_payload_is_the_receivers_own():
    left, right = channels()
    left.send(wire.BATCH, 1, None, [b"a" * 100])
    first = right.receive()
    left.send(wire.BATCH, 2, None, [b"b" * 100])
    right.receive()
    first.payload[0] = 0
    assert bytes(first.payload[1:]) == b"a" * 99


def test_the_end_of_the_link_wakes_and_is_an_error():
    left, right = channels()
    left.close()
    with pytest.raises(wire.LinkClosed):
        right.receive()
    with pytest.raises(wire.LinkClosed):
        right.send(wire.DONE, 0, "x" * 1000)


def test_shutdown_wakes_a_waiting_receiver():
    left, right = channels()
    caught = []

    def wait():
        try:
            right.receive()
        except wire.LinkClosed as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    right.shutdown()
    thread.join(20)
    assert len(caught) == 1
    left.close()


def test_strings_both_ways():
    elements = [b"", b"a", b"\0" * 300, "ä".encode(), bytes(range(256)) * 300]
    raw = strings.encode(elements)
    assert raw == b"".join(struct.pack("<I", len(element)) + element for element in elements)
    assert strings.decode(raw) == elements
    assert strings.decode(b"") == []
    assert strings.decode_array(raw, (5, 1)).shape == (5, 1)


def test_strings_of_other_kinds():
    assert strings.decode(strings.encode(["ä", 5, b"x", bytearray(b"y"), None])) == [
        b"\xc3\xa4",
        b"5",
        b"x",
        b"y",
        b"None",
    ]


@pytest.mark.parametrize("raw", [b"\1", b"\5\0\0\0abc", b"\1\0\0\0ab", b"\xff\xff\xff\xff"])
def test_lengths_that_lie_are_refused(raw):
    with pytest.raises(ValueError, match="run past its end"):
        strings.decode(raw)


def new_arena(reserved=0):
    fd = shared_file("test")
    return Arena(fd, reserved), Region(fd)


def test_blocks_do_not_overlap_and_memory_is_used_again():
    arena, _ = new_arena(reserved=4096)
    rng = random.Random(1)
    used: dict[int, int] = {}
    for _ in range(3000):
        if used and rng.random() < 0.5:
            offset = rng.choice(list(used))
            del used[offset]
            arena.free(offset)
        else:
            size = rng.choice((1, 64, 65, 5000, 100_000))
            offset = arena.allocate(size)
            assert offset >= 4096
            assert offset % 64 == 0
            assert all(offset + size <= start or start + length <= offset for start, length in used.items())
            used[offset] = size
    for offset in used:
        arena.free(offset)
    assert arena.blocks == 0
    assert arena._free == [(4096, arena.region.size - 4096)]


def test_the_reader_sees_what_the_owner_placed_also_after_growth():
    arena, reader = new_arena()
    released: deque[int] = deque()
    views = []
    for number in range(5):
        data = np.full(700_000, number, np.uint8)
        offset = arena.place([data[:10], data[10:]], [10, 699_990], 700_000)
        views.append(np.asarray(Block(reader, offset, 700_000, released)))
    for number, view in enumerate(views):
        assert (view.min(), view.max()) == (number, number)
    assert not released
    part = views[2][5:10]
    views.clear()
    del view
    assert len(released) == 4
    del part
    assert len(released) == 5


def test_memory_that_can_not_be_had_is_an_error_and_changes_nothing():
    arena, _ = new_arena()
    offset = arena.allocate(100)
    with pytest.raises(OSError, match="more than the memory of this machine"):
        arena.allocate(memory_limit_bytes())
    arena.free(offset)
    assert arena.allocate(100) == offset


def test_small_columns_travel_in_the_frame_and_large_ones_in_shared_memory():
    arena, reader = new_arena()
    packer = Packer(arena)
    small = [np.arange(3, dtype=np.float32) + n for n in range(4)]
    large = [np.arange(IN_FRAME_BYTES, dtype=np.uint8)] * 2
    first = packer.column("S", "FP32", [a.shape for a in small], small, [a.nbytes for a in small])
    second = packer.column("L", "UINT8", [a.shape for a in large], large, [a.nbytes for a in large])
    third = packer.column("S2", "FP32", [(1,), (2,)], [small[0][:1], small[1][:2]], [4, 8])
    assert (first[4], second[4], third[4]) == (IN_FRAME, IN_WRITER, IN_FRAME)
    payload = bytearray().join(packer.parts)
    for expected, array in zip(small, arrays(first, 4, payload, first[5]), strict=True):
        np.testing.assert_array_equal(array, expected)
        assert array.flags.aligned
        assert array.flags.writeable
    reader.reach(second[5] + 1)
    np.testing.assert_array_equal(arrays(second, 2, reader.view, second[5])[1], large[1])
    assert [array.tolist() for array in arrays(third, 2, payload, third[5])] == [[0], [1, 2]]
    packer.undo()
    assert arena.blocks == 0


def test_errors_and_requests_refuse_nonsense():
    with pytest.raises(TypeError):
        TritonError(5)
    with pytest.raises(ValueError, match="constants"):
        TritonError("x", 99)
    with pytest.raises(TypeError, match="Tensor"):
        InferenceResponse(output_tensors=[5])
    with pytest.raises(TypeError, match="TritonError"):
        InferenceResponse(error="text")
    with pytest.raises(TritonModelException, match="parameter 'p'"):
        InferenceResponse(parameters={"p": [1]})
    with pytest.raises(TritonModelException, match="correlation id"):
        InferenceRequest(model_name="m", requested_output_names=[], inputs=[], correlation_id=1.5)
    with pytest.raises(TritonModelException, match="complex128"):
        Tensor("X", np.zeros(1, complex))


def test_a_tensor_takes_what_numpy_can_take():
    assert Tensor("X", np.float32(3)).shape() == []
    assert Tensor("X", [[1, 2]]).shape() == [1, 2]
    assert Tensor(np.str_("X"), np.zeros(1)).name() == "X"
    assert repr(Tensor("X", np.zeros((2, 1), np.int8))) == "Tensor('X', INT8, [2, 1])"


def test_model_config_by_itself():
    config = ModelConfig('{"name": "m", "sequence_batching": {}}')
    with pytest.raises(ValueError, match="chosen sequence_batching"):
        config.set_dynamic_batching()
    config.set_model_transaction_policy({"decoupled": True})
    with pytest.raises(ValueError, match="decoupled False"):
        config.set_model_transaction_policy({"decoupled": False})
    assert config.as_dict()["model_transaction_policy"] == {"decoupled": True}
