"""Bytes that are read when they are needed, and to where they are needed."""

import numpy as np

from charonia.core.tensor import Tensor
from charonia.core.unread import UnreadBuffer


class Source:
    def __init__(self):
        self.reads = 0

    def fill(self, target):
        self.reads += 1
        target[:] = self.reads


def test_nothing_is_read_before_it_is_needed_and_then_once():
    source = Source()
    buffer = UnreadBuffer(source.fill, 4)
    assert (source.reads, buffer.nbytes, buffer.device, buffer.owned) == (0, 4, "cpu", True)
    assert bytes(memoryview(buffer.host())) == b"\1\1\1\1"
    assert buffer.host() is buffer.host()
    assert source.reads == 1


def test_reading_into_a_place_needs_no_copy_of_its_own():
    source, target = Source(), np.zeros(6, np.uint8)
    buffer = UnreadBuffer(source.fill, 4)
    buffer.read_into(target[1:5])
    assert target.tolist() == [0, 1, 1, 1, 1, 0]
    assert bytes(buffer.host()) == b"\2\2\2\2"
    buffer.read_into(target[2:6])
    assert (target.tolist(), source.reads) == ([0, 1, 2, 2, 2, 2], 2)  # what was read is what stays


def test_a_tensor_over_it_has_every_form():
    tensor = Tensor("x", "INT16", (2,), UnreadBuffer(Source().fill, 4))
    assert tensor.numpy().tolist() == [257, 257]
    assert tensor.copied().numpy().tolist() == [257, 257]
    assert tensor.to_owned() is tensor
    assert Tensor("x", "UINT8", (2, 2), UnreadBuffer(Source().fill, 4)).numpy().tolist() == [[1, 1], [1, 1]]
    assert Tensor("x", "FP32", (0, 3), UnreadBuffer(Source().fill, 0)).numpy().shape == (0, 3)
