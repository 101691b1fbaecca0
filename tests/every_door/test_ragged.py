"""Unequal requests in one batch: each is answered as if it were alone, whoever executes them."""

import numpy as np
import pytest

from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import LONG_US, ask
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

TOGETHER = f"dynamic_batching {{ preferred_batch_size: [{len(DOORS)}] max_queue_delay_microseconds: {LONG_US} }}"
RAGGED = 'input { name: "X" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }'
SEGMENTS = f"""
    backend: "onnxruntime" max_batch_size: 8 {RAGGED}
    output [ {{ name: "SUM" data_type: TYPE_FP32 dims: 1 }}, {{ name: "TWICE" data_type: TYPE_FP32 dims: -1 }} ]
    batch_input {{
      kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "EDGES" data_type: TYPE_INT32 source_input: "X"
    }}
    batch_output {{ target_name: "TWICE" source_input: "X" }}
"""
WARM = """
    model_warmup [
      { name: "three" batch_size: 3 inputs { key: "X" value { data_type: TYPE_FP32 dims: 5 random_data: true } } },
      { name: "none" batch_size: 1 inputs { key: "X" value { data_type: TYPE_FP32 dims: 0 zero_data: true } } }
    ]
"""
# Says how many requests came together, and how many elements each of them brought.
COUNTING = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
            return [
                pb_utils.InferenceResponse([
                    pb_utils.Tensor("SUM", array.sum(axis=1, keepdims=True)),
                    pb_utils.Tensor("TWICE", 2 * array),
                ])
                for array in arrays
            ]
"""
LENGTHS = (3, 0, 1, 6, 2, 5)
EXECUTORS = ("onnx", "isolated", "inline")


def lay_out(repository):
    for name, more in (("onnx", TOGETHER), ("onnx_single", ""), ("onnx_warm", WARM)):
        onnx_models.save(onnx_models.segments(), repository, name)
        write_config(repository, name, SEGMENTS + more)
    for form in ("isolated", "inline"):
        config = f"""
            max_batch_size: 8 {RAGGED} {TOGETHER}
            output [ {{ name: "SUM" data_type: TYPE_FP32 dims: 1 }}, {{ name: "TWICE" data_type: TYPE_FP32 dims: -1 }} ]
            parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
        """
        write_python_model(repository, form, config, COUNTING)
    output = 'output { name: "Y" data_type: TYPE_FP32 dims: -1 }'
    config = f'backend: "identity" max_batch_size: 8 {RAGGED} {TOGETHER} {output}'
    (write_config(repository, "identity", config) / "1").mkdir()
    (write_config(repository, "whole", _ensemble()) / "1").mkdir()


def _ensemble():
    return f"""
        platform: "ensemble" max_batch_size: 8
        {RAGGED.replace(" allow_ragged_batch: true", "")}
        output {{ name: "SUM" data_type: TYPE_FP32 dims: 1 }}
        ensemble_scheduling {{ step {{
          model_name: "onnx" input_map {{ key: "X" value: "X" }} output_map {{ key: "SUM" value: "SUM" }}
        }} }}
    """


def values(length, start=1):
    return {"X": np.arange(start, start + length, dtype=np.float32).reshape(1, length)}


def executions(server, model):
    counted = server.model(model).statistics()
    return counted.inference_count, counted.execution_count


@pytest.mark.parametrize("model", EXECUTORS)
def test_unequal_requests_of_every_door_are_one_execution(server, clients, model):
    before = executions(server, model)
    sent = [values(length) for length in LENGTHS]
    asked = [clients.submit(ask, door, server, model, each) for door, each in zip(DOORS, sent, strict=True)]
    for each, future in zip(sent, asked, strict=True):
        got = future.result(PATIENCE_S)
        np.testing.assert_array_equal(got["SUM"], each["X"].sum(axis=1, keepdims=True))
        np.testing.assert_array_equal(got["TWICE"], 2 * each["X"])
    assert executions(server, model) == (before[0] + len(DOORS), before[1] + 1)


def test_an_identity_takes_them_too(server, clients):
    sent = [values(length) for length in LENGTHS]
    asked = [clients.submit(ask, door, server, "identity", each) for door, each in zip(DOORS, sent, strict=True)]
    for each, future in zip(sent, asked, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE_S)["Y"], each["X"])
    assert executions(server, "identity") == (len(DOORS), 1)


def test_a_step_of_an_ensemble_takes_them_together(server, clients):
    before = executions(server, "onnx")
    sent = [values(length) for length in LENGTHS]
    asked = [clients.submit(ask, door, server, "whole", each) for door, each in zip(DOORS, sent, strict=True)]
    for each, future in zip(sent, asked, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE_S)["SUM"], each["X"].sum(axis=1, keepdims=True))
    assert executions(server, "onnx") == (before[0] + len(DOORS), before[1] + 1)


def test_a_request_that_breaks_the_run_leaves_its_neighbours_alone(server, clients):
    sent = [values(length) for length in LENGTHS]
    sent[1] = {"X": np.full((1, 2), 500, np.float32)}
    asked = [clients.submit(ask, door, server, "onnx", each) for door, each in zip(DOORS, sent, strict=True)]
    with pytest.raises(RefusedError, match="failed in ONNX Runtime") as failed:
        asked[1].result(PATIENCE_S)
    assert failed.value.code == "INTERNAL"
    for at in (0, *range(2, len(DOORS))):
        np.testing.assert_array_equal(asked[at].result(PATIENCE_S)["TWICE"], 2 * sent[at]["X"])


@pytest.mark.parametrize("model", ["onnx_single", "onnx_warm"])
@pytest.mark.parametrize("length", LENGTHS)
def test_alone(door, model, length):
    sent = values(length)
    got = door.infer(model, sent)
    np.testing.assert_array_equal(got["SUM"], sent["X"].sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(got["TWICE"], 2 * sent["X"])
    assert list(door.infer(model, sent, outputs=["TWICE"]).outputs) == ["TWICE"]


def test_what_the_server_makes_is_no_input_of_a_request(door, server):
    """Not in the metadata, and no client may send it."""
    assert [tensor.name for tensor in server.model("onnx_single").metadata.inputs] == ["X"]
    with pytest.raises(RefusedError, match="unexpected inference input 'EDGES'") as refused:
        door.infer("onnx_single", {**values(2), "EDGES": np.array([[0, 2]], np.int32)})
    assert refused.value.code == "INVALID_ARGUMENT"
