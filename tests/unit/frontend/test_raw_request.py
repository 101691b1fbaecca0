"""The whole body as the one input of a model."""

from types import SimpleNamespace

import numpy as np
import pytest

from charonia.config.io import InputSpec
from charonia.core.errors import InvalidArgumentError
from charonia.core.tensor import HostBuffer
from charonia.frontend.raw_request import raw_input


def model(datatype="FP32", dims=(-1,), *, batches=False, inputs=1):
    specs = tuple(InputSpec(f"INPUT{number}", datatype, tuple(dims)) for number in range(inputs))
    return SimpleNamespace(name="m", inputs=specs, config=SimpleNamespace(max_batch_size=8 * batches))


def body(data):
    return HostBuffer(data, len(data), owned=True)


@pytest.mark.parametrize(
    ("dims", "batches", "shape"),
    [((-1,), False, (6,)), ((2, -1), False, (2, 3)), ((6,), True, (1, 6)), ((-1, 3), True, (1, 2, 3))],
)
def test_the_open_dim_follows_from_the_size(dims, batches, shape):
    values = np.arange(6, dtype=np.float32)
    tensor = raw_input(model(dims=dims, batches=batches), body(values.tobytes()))
    assert (tensor.name, tensor.shape) == ("INPUT0", shape)
    assert tensor.numpy().tobytes() == values.tobytes()


def test_a_text_is_one_element_whatever_is_in_it():
    tensor = raw_input(model("BYTES", (1,), batches=True), body(b"4\x002\n7"))
    assert tensor.shape == (1, 1)
    assert tensor.numpy().tolist() == [[b"4\x002\n7"]]


@pytest.mark.parametrize("dims", [(-1,), (2,), (1, 1), ()])
def test_a_model_with_room_for_other_than_one_text_can_not_take_it(dims):
    with pytest.raises(
        InvalidArgumentError, match=r"raw input 'INPUT0', the model must have input shape \[1\].*'m' has"
    ):
        raw_input(model("BYTES", dims), body(b"427"))


@pytest.mark.parametrize(("dims", "size"), [((-1,), 7), ((2, -1), 12), ((3,), 8), ((3,), 16)])
def test_sizes_that_do_not_fit(dims, size):
    with pytest.raises(InvalidArgumentError, match="byte size mismatch for input 'INPUT0' for model 'm'"):
        raw_input(model(dims=dims), body(bytes(size)))


def test_what_can_not_be_deduced():
    with pytest.raises(InvalidArgumentError, match="open in more than one place"):
        raw_input(model(dims=(-1, -1)), body(bytes(8)))
    with pytest.raises(InvalidArgumentError, match=r"must only have 1 input \(found 1\).* got 2 inputs in 'm'"):
        raw_input(model(inputs=2), body(bytes(8)))
