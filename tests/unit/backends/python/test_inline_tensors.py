"""Tensors between the server and inline models: what is copied, and what is only passed on."""

import numpy as np
import pytest

from charonia.backends.python.child.errors import TritonModelException
from charonia.backends.python.inline_tensors import LentTensor, take
from charonia.backends.python.inline_tensors import lend as lend_as
from charonia.core.tensor import Tensor
from charonia.testing.device import FakeDevice


def lend(tensor, prefers_host=False):
    return lend_as(tensor, prefers_host)


def test_an_owned_tensor_that_is_only_passed_on_is_not_copied():
    tensor = Tensor.from_numpy("Y", np.arange(3, dtype=np.float32), owned=True)
    lent = lend(tensor)
    assert isinstance(lent, LentTensor)
    assert take(lent).buffer is tensor.buffer


def test_a_model_writes_to_a_copy_of_its_own():
    array = np.arange(3, dtype=np.float32)
    lent = lend(Tensor.from_numpy("Y", array, owned=True))
    lent.as_numpy()[0] = 7
    assert array.tolist() == [0, 1, 2]
    assert lent.as_numpy().tolist() == [7, 1, 2]
    assert take(lent).numpy().tolist() == [7, 1, 2]


def test_memory_that_its_maker_uses_again_is_copied_at_once():
    array = np.arange(3, dtype=np.float32)
    lent = lend(Tensor.from_numpy("Y", array, owned=False))
    array[:] = 9
    assert lent.as_numpy().tolist() == [0, 1, 2]


def test_strings_are_passed_on_as_they_are():
    tensor = Tensor.from_numpy("Y", np.array([b"a", "ä"], object))
    lent = lend(tensor)
    assert bytes(take(lent).buffer.host()) == bytes(tensor.buffer.host())
    assert lent.as_numpy().tolist() == [b"a", "ä".encode()]


def test_a_tensor_that_the_model_may_change_is_copied_where_the_caller_does_not_wait():
    made = lend(Tensor.from_numpy("X", np.zeros(2, np.float32), owned=False))
    kept, shared = take(made, copies=True), take(made)
    made.as_numpy()[0] = 5
    assert (kept.numpy().tolist(), kept.buffer.owned) == ([0, 0], True)
    assert (shared.numpy().tolist(), shared.buffer.owned) == ([5, 0], False)


def test_what_lies_on_a_device_stays_there():
    device = FakeDevice()
    tensor = Tensor("Y", "FP32", (3,), device.place(np.arange(3, dtype=np.float32)))
    lent = lend(tensor)
    assert not lent.is_cpu()
    assert take(lent).buffer is tensor.buffer
    with pytest.raises(TritonModelException, match="PreferredMemory"):
        lent.as_numpy()
    assert device.downloads == 0


def test_what_is_preferred_on_the_host_is_copied_there():
    device = FakeDevice()
    lent = lend(Tensor("Y", "FP32", (3,), device.place(np.arange(3, dtype=np.float32))), prefers_host=True)
    assert lent.is_cpu()
    assert lent.as_numpy().tolist() == [0, 1, 2]
    assert device.downloads == 1
