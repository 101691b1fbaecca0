"""Which requests are the same to the response cache, and which are not."""

import ml_dtypes
import numpy as np
import pytest

from charonia.cache.keys import KeyMaker, own_inputs
from charonia.core.tensor import HostBuffer, Tensor
from charonia.testing.device import FakeDevice
from charonia.testing.requests import KeptReplies, make_request

MAKER = KeyMaker()


def request_key(identity, request):
    """By a maker that has seen all the others, and by a new one."""
    key = MAKER.key(identity, request)
    assert KeyMaker().key(identity, request) == key
    return key


def request(arrays, **options):
    tensors = [Tensor.from_numpy(name, np.asarray(array), owned=True) for name, array in arrays.items()]
    return make_request(KeptReplies(), inputs={tensor.name: tensor for tensor in tensors}, **options)


def key(arrays, identity=b"model", **options):
    return request_key(identity, request(arrays, **options))


ONE = {"A": np.array([1, 2], np.int32), "B": np.array([3.0], np.float32)}
THE_SAME = {
    "id": ONE | {},
    "order of inputs": dict(reversed(ONE.items())),
}


@pytest.mark.parametrize("arrays", THE_SAME.values(), ids=THE_SAME)
def test_the_same(arrays):
    assert key(arrays, id="x", priority=3, timeout_us=7, arrival_ns=9) == key(ONE)


def test_the_order_of_requested_outputs_and_parameters_does_not_matter():
    assert key(ONE, requested_outputs=("X", "Y")) == key(ONE, requested_outputs=("Y", "X"))
    assert key(ONE, parameters={"a": 1, "b": 2}) == key(ONE, parameters={"b": 2, "a": 1})


@pytest.mark.parametrize("more", [{}, {"parameters": {"a": 1}}])
def test_a_request_for_all_outputs_need_not_name_them(more):
    def made(outputs, **options):
        return KeyMaker(outputs).key(b"model", request(ONE, **options, **more))

    assert made(("X", "Y"), requested_outputs=("Y", "X")) == made(("X", "Y"))
    assert made(("X", "Y"), requested_outputs=("X",)) != made(("X", "Y"))
    assert made((), requested_outputs=("X", "Y")) != made(())


DIFFERENT = {
    "bytes": ({"A": np.array([1, 3], np.int32), "B": ONE["B"]}, {}),
    "shape": ({"A": np.array([[1, 2]], np.int32), "B": ONE["B"]}, {}),
    "datatype": ({"A": np.array([1, 2], np.uint32), "B": ONE["B"]}, {}),
    "name": ({"A": ONE["A"], "C": ONE["B"]}, {}),
    "names changed over": ({"B": ONE["A"], "A": ONE["B"]}, {}),
    "fewer inputs": ({"A": ONE["A"]}, {}),
    "requested outputs": (ONE, {"requested_outputs": ("X",)}),
    "parameters": (ONE, {"parameters": {"a": 1}}),
    "correlation id": (ONE, {"correlation_id": 1}),
    "flags": (ONE, {"flags": 1}),
    "another model": (ONE, {"identity": b"other"}),
}


@pytest.mark.parametrize(("arrays", "options"), DIFFERENT.values(), ids=DIFFERENT)
def test_different(arrays, options):
    assert key(arrays, **options) != key(ONE)


def test_types_of_parameters_are_told_apart():
    values = (1, True, 1.0, "1", "True")
    assert len({key(ONE, parameters={"a": value}) for value in values}) == len(values)


def test_what_is_one_input_here_is_not_two_there():
    joined = {"A": np.frombuffer(ONE["A"].tobytes() + ONE["B"].tobytes(), np.uint8)}
    assert key(joined) != key(ONE)
    strings = [np.array(["ab", "c"], np.object_), np.array(["a", "bc"], np.object_)]
    assert key({"A": strings[0]}) != key({"A": strings[1]})


def test_every_kind_of_memory_can_be_read():
    array = np.arange(4, dtype=np.float32)
    hosts = [array, array.tobytes(), memoryview(array.tobytes()), bytearray(array.tobytes())]
    keys = {
        request_key(
            b"", make_request(KeptReplies(), inputs={"A": Tensor("A", "FP32", (4,), HostBuffer(host, 16, owned=True))})
        )
        for host in hosts
    }
    assert len(keys) == 1
    assert key({"A": np.array([1.5], ml_dtypes.bfloat16)}) != key({"A": np.array([2.5], ml_dtypes.bfloat16)})
    assert key({"A": np.zeros((0, 4), np.float32)}) != key({"A": np.zeros((4, 0), np.float32)})


def test_memory_of_a_device_has_no_key():
    tensor = Tensor("A", "FP32", (1,), FakeDevice().place(np.zeros(1, np.float32)))
    on_device = make_request(KeptReplies(), inputs={"A": tensor})
    own_inputs(on_device)
    assert on_device.inputs["A"] is tensor
    assert request_key(b"", on_device) is None


def test_inputs_that_somebody_may_write_to_are_copied_first():
    array = np.array([1.0], np.float32)
    asked = make_request(KeptReplies(), inputs={"A": Tensor.from_numpy("A", array)})
    shared = asked.inputs
    own_inputs(asked)
    array[:] = 2
    assert asked.inputs["A"].numpy().tolist() == [1.0]
    assert shared["A"].numpy().tolist() == [2.0]  # whoever else has the mapping keeps it
