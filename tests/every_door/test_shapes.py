"""Shapes at the edge: nothing in them, no dims at all, and bytes that say something else than the shape."""

import grpc
import numpy as np
import pytest

from tests.every_door.doors import RefusedError
from tests.every_door.raw import RawGrpc, RawHttp, binary_input, infer_pb2, one_input
from tests.every_door.watched import WatchedQueue
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

SHAPES = ((0,), (0, 0), (1, 0), (0, 0, 2), (1, 0, 2))
# Gives back empty tensors by DLPack, one output for each shape; needs an array library only on this side.
EMPTY = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    SHAPES = %r

    class TritonPythonModel:
        def execute(self, requests):
            outputs = [
                pb_utils.Tensor.from_dlpack(f"OUT{index}", np.zeros(shape, np.float32))
                for index, shape in enumerate(SHAPES)
            ]
            seen = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy().shape
            outputs.append(pb_utils.Tensor("SEEN", np.array(seen, np.int64)))
            return [pb_utils.InferenceResponse(outputs)]
"""


def lay_out(repository):
    onnx_models.save(onnx_models.identity("FP32", ["length"]), repository, "free")
    write_config(repository, "free", "max_batch_size: 0")
    for datatype in ("FP32", "INT64", "BYTES"):
        onnx_models.save(onnx_models.identity(datatype, ["a", "b"]), repository, f"matrix_{datatype}")
        write_config(repository, f"matrix_{datatype}", "max_batch_size: 0")
    onnx_models.save(onnx_models.scalar(), repository, "scalar")
    for form in ("isolated", "inline"):
        outputs = ", ".join(
            f'{{ name: "OUT{index}" data_type: TYPE_FP32 dims: {[-1] * len(shape)} }}'
            for index, shape in enumerate(SHAPES)
        )
        write_python_model(
            repository,
            f"empty_{form}",
            f"""
            input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ -1, -1 ] }} ]
            output [ {outputs}, {{ name: "SEEN" data_type: TYPE_INT64 dims: [ -1 ] }} ]
            parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
            """,
            EMPTY % (SHAPES,),
        )


@pytest.mark.parametrize("datatype", ["FP32", "INT64", "BYTES"])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (0, 3)])
def test_empty_tensors_of_every_kind(door, datatype, shape):
    sent = np.zeros(shape, np.object_ if datatype == "BYTES" else onnx_models.sample(datatype, (1,)).dtype)
    got = door.infer(f"matrix_{datatype}", {"INPUT0": sent})["OUTPUT0"]
    assert got.shape == shape
    assert door.infer("free", {"INPUT0": np.ones(2, np.float32)})["OUTPUT0"].tolist() == [1, 1]


def test_the_forms_of_nothing(server):
    http, messages = RawHttp(server), RawGrpc(server)
    for answer in (http.infer("free", one_input([])), http.infer("free", binary_input(0, shape=(0,)))):
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["shape"] == [0]
    for raw in ([b""], []):
        asked = infer_pb2.ModelInferRequest(model_name="free", raw_input_contents=raw)
        tensor = asked.inputs.add(name="INPUT0", datatype="FP32", shape=[0])
        if not raw:
            tensor.contents.SetInParent()
        got = messages.infer(asked)
        assert list(got.outputs[0].shape) == [0]
        assert list(got.raw_output_contents) == [b""]
    http.close()
    messages.close()


@pytest.mark.parametrize("form", ["isolated", "inline"])
def test_a_python_model_may_give_empty_tensors_by_dlpack(door, form):
    answer = door.infer(f"empty_{form}", {"IN": np.zeros((2, 0), np.float32)})
    for index, shape in enumerate(SHAPES):
        assert answer[f"OUT{index}"].shape == shape
    assert answer["SEEN"].tolist() == [2, 0]


def test_a_model_of_rank_0_says_shape_1(door):
    assert door.infer("scalar", {"X": np.array([41], np.float32)})["Y"].tolist() == [42]
    for wrong in (np.zeros((2,), np.float32), np.zeros((0,), np.float32), np.zeros((1, 1), np.float32)):
        with pytest.raises(RefusedError, match="'X' for model 'scalar'") as refused:
            door.infer("scalar", {"X": wrong})
        assert refused.value.code == "INVALID_ARGUMENT"


def wrong_grpc(server):
    asked = infer_pb2.ModelInferRequest(model_name="m", raw_input_contents=[np.zeros(10, np.float32).tobytes()])
    asked.inputs.add(name="IN", datatype="FP32", shape=[1, 8])
    door = RawGrpc(server)
    with pytest.raises(grpc.RpcError) as refused:
        door.infer(asked)
    door.close()
    return refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT, refused.value.details()


def wrong_binary(server):
    door = RawHttp(server)
    answer = door.infer("m", binary_input(40, name="IN", shape=(1, 8)), tail=b"\0" * 40)
    door.close()
    return answer.status_code == 400, answer.json()["error"]


def wrong_json(server):
    door = RawHttp(server)
    answer = door.infer("m", one_input([0.0] * 10, name="IN", shape=[1, 8]))
    door.close()
    return answer.status_code == 400, answer.json()["error"]


@pytest.mark.parametrize("wrong", [wrong_grpc, wrong_binary, wrong_json])
def test_surplus_bytes_never_reach_the_neighbour_in_the_batch(gated, wrong):
    served = gated(
        "max_batch_size: 8 dynamic_batching { preferred_batch_size: [2] max_queue_delay_microseconds: 3600000000 }",
        dims="8",
    )
    watched = WatchedQueue(served.model)
    innocents = [served.send(1, length=8)]
    watched.wait_queued()
    is_refused, said = wrong(served.server)
    assert is_refused
    assert "'IN'" in said
    assert not innocents[0].done()
    served.gate.open()
    innocents.append(served.send(2, length=8))
    for value, future in enumerate(innocents, 1):
        got = future.result(PATIENCE_S).outputs["OUT"].numpy()
        np.testing.assert_array_equal(got, np.full((1, 8), value, np.float32))
    assert served.batch_statistics() == {2: 1}


def test_tensors_in_regions_that_nobody_registered_are_refused(server):
    """Never an empty tensor in the batch, never an answer that the client looks for elsewhere."""
    http, messages = RawHttp(server), RawGrpc(server)
    region = {"shared_memory_region": "mine", "shared_memory_byte_size": 4}
    inputs = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "parameters": region}]}
    outputs = one_input([1.0], outputs=[{"name": "OUTPUT0", "parameters": region}])
    for document in (inputs, outputs):
        answer = http.infer("free", document)
        assert answer.status_code == 404
        assert "Unable to find shared memory region: 'mine'" in answer.json()["error"]
    asked = infer_pb2.ModelInferRequest(model_name="free")
    tensor = asked.inputs.add(name="INPUT0", datatype="FP32", shape=[1])
    tensor.parameters["shared_memory_region"].string_param = "mine"
    tensor.parameters["shared_memory_byte_size"].int64_param = 4
    with pytest.raises(grpc.RpcError) as refused:
        messages.infer(asked)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    assert "'mine'" in refused.value.details()
    http.close()
    messages.close()
