"""`reshape`: clients see one shape, the model another; with sizes that vary, with none, and in ragged batches."""

import numpy as np
import pytest

from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import LONG_US, ask
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

# By name: the shapes of an input and of the equal output as the configuration has them, for clients and for the model.
RESHAPES = {
    "wider": ("[ 4 ]", "[ 2, 1, 2 ]"),
    "narrower": ("[ 2, 2 ]", "[ 4 ]"),
    "open": ("[ -1, 6 ]", "[ -1, 2, 3 ]"),
    "two_open": ("[ -1, 1, -1 ]", "[ -1, -1 ]"),
    "scalar": ("[ 1 ]", "[ ]"),
    "ones": ("[ 1, 1, 1 ]", "[ ]"),
}
SENT = {
    "wider": [(1, 4), (3, 4)],
    "narrower": [(2, 2, 2)],
    "open": [(1, 5, 6), (2, 0, 6)],
    "two_open": [(2, 3, 1, 4), (1, 1, 1, 1)],
    "scalar": [(1, 1), (4, 1)],
    "ones": [(2, 1, 1, 1)],
}
WRONG = {
    "wider": (1, 2, 1, 2),
    "narrower": (1, 4),
    "open": (1, 5, 2, 3),
    "two_open": (1, 3, 4),
    "scalar": (1,),
    "ones": (2, 1),
}
# Says the shape that it was given.
SEEN = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            answers = []
            for request in requests:
                array = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
                seen = np.tile(np.array([[*array.shape, *[-1] * (5 - array.ndim)]], np.int64), (len(array), 1))
                answers.append(pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUTPUT0", array), pb_utils.Tensor("SEEN", seen)]
                ))
            return answers
"""


def tensors(dims, shape, ragged="", more=""):
    io = f"data_type: TYPE_FP32 dims: {dims} reshape {{ shape: {shape} }}"
    return f"""
        max_batch_size: 8
        input [ {{ name: "INPUT0" {io} {ragged} }} ]
        output [ {{ name: "OUTPUT0" {io} }} {more} ]
    """


def lay_out(repository):
    seen = ', { name: "SEEN" data_type: TYPE_INT64 dims: 5 }'
    for name, (dims, shape) in RESHAPES.items():
        rank = 1 + shape.count(",") + (shape != "[ ]")
        onnx_models.save(onnx_models.identity("FP32", [f"d{at}" for at in range(rank)]), repository, f"onnx_{name}")
        write_config(repository, f"onnx_{name}", tensors(dims, shape))
        write_python_model(repository, f"python_{name}", INLINE + tensors(dims, shape, more=seen), SEEN)
        (write_config(repository, f"identity_{name}", 'backend: "identity"' + tensors(dims, shape)) / "1").mkdir()
    together = f"dynamic_batching {{ preferred_batch_size: {len(DOORS)} max_queue_delay_microseconds: {LONG_US} }}"
    scatter = 'batch_output { target_name: "OUTPUT0" source_input: "INPUT0" }'
    onnx_models.save(onnx_models.identity("FP32", ["E"]), repository, "ragged")
    config = tensors("[ -1, 6 ]", "[ -1, 2, 3 ]", "allow_ragged_batch: true")
    write_config(repository, "ragged", config + scatter + together)


INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'


def values(shape):
    return {"INPUT0": np.random.default_rng(len(shape)).random(shape, np.float32)}


@pytest.mark.parametrize("backend", ["onnx", "python", "identity"])
@pytest.mark.parametrize("name", RESHAPES)
def test_clients_see_their_shape(door, backend, name):
    for shape in SENT[name]:
        sent = values(shape)
        answer = door.infer(f"{backend}_{name}", sent)
        np.testing.assert_array_equal(answer["OUTPUT0"], sent["INPUT0"])
        if backend == "python":
            assert answer["SEEN"][0].tolist() == expected(name, shape)


def expected(name, shape):
    rows, rest = shape[0], shape[1:]
    dims = {
        "wider": (2, 1, 2),
        "narrower": (4,),
        "open": (*rest[:1], 2, 3),
        "two_open": (rest[0], rest[-1]),
        "scalar": (),
        "ones": (),
    }[name]
    return [rows, *dims, *[-1] * (4 - len(dims))]


@pytest.mark.parametrize("name", RESHAPES)
def test_the_models_shape_is_no_clients_shape(door, name):
    with pytest.raises(RefusedError, match="unexpected shape for input 'INPUT0'") as refused:
        door.infer(f"onnx_{name}", values(WRONG[name]))
    assert refused.value.code == "INVALID_ARGUMENT"


def test_unequal_requests_that_are_reshaped_share_a_batch(server, clients):
    sent = [values((1, length, 6)) for length in (3, 0, 1, 4, 2, 7)]
    asked = [clients.submit(ask, door, server, "ragged", each) for door, each in zip(DOORS, sent, strict=True)]
    for each, future in zip(sent, asked, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE_S)["OUTPUT0"], each["INPUT0"])
    assert server.model("ragged").statistics().execution_count == 1
