"""gRPC messages: typed contents of every datatype, and those that no client would send."""

import grpc
import numpy as np
import pytest

from charonia.core.datatypes import DATATYPES
from tests.every_door.raw import RawGrpc, infer_pb2
from tests.models import onnx_models
from tests.models.repository import write_config

FIELDS = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 127]),
    "INT16": ("int_contents", [-32768, 32767]),
    "INT32": ("int_contents", [-(2**31), 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 2**63 - 1]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT16": ("uint_contents", [0, 65535]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "FP32": ("fp32_contents", [-0.5, float("inf")]),
    "FP64": ("fp64_contents", [1e300, float("-inf")]),
    "BYTES": ("bytes_contents", [b"", b"a\0b"]),
}


def lay_out(repository):
    for datatype in (*FIELDS, "FP16"):
        onnx_models.save(onnx_models.identity(datatype, ["length"]), repository, datatype)
        write_config(repository, datatype, "max_batch_size: 0")
    onnx_models.save(onnx_models.add_sub(), repository, "add_sub")


@pytest.fixture
def grpc_door(server):
    """After the test the server must be live and answer rightly."""
    opened = RawGrpc(server)
    yield opened
    assert opened.stub.ServerLive(infer_pb2.ServerLiveRequest()).live
    assert typed_answer(opened, "FP32") == np.array([-0.5, np.inf], np.float32).tobytes()
    opened.close()


def message(model, *, shape=(2,), raw=(), datatype=None, name="INPUT0", **contents):
    asked = infer_pb2.ModelInferRequest(model_name=model, raw_input_contents=raw)
    tensor = asked.inputs.add(name=name, datatype=datatype or model, shape=shape)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return asked


def typed_answer(door, datatype):
    field, values = FIELDS[datatype]
    return door.infer(message(datatype, **{field: values})).raw_output_contents[0]


def refusal(door, asked, code=grpc.StatusCode.INVALID_ARGUMENT):
    with pytest.raises(grpc.RpcError) as refused:
        door.infer(asked)
    assert refused.value.code() == code
    return refused.value.details()


@pytest.mark.parametrize("datatype", FIELDS)
def test_typed_contents_of_every_datatype(grpc_door, datatype):
    _, values = FIELDS[datatype]
    expected = (
        b"\0\0\0\0\x03\0\0\0a\0b" if datatype == "BYTES" else np.array(values, DATATYPES[datatype].numpy).tobytes()
    )
    assert typed_answer(grpc_door, datatype) == expected


@pytest.mark.parametrize("datatype", FIELDS)
def test_the_wrong_field_is_refused(grpc_door, datatype):
    own, _ = FIELDS[datatype]
    for field, values in dict(FIELDS.values()).items():
        if field != own:
            said = refusal(grpc_door, message(datatype, **{field: values}))
            assert f"unexpected explicit tensor data for input tensor 'INPUT0' for model '{datatype}'" in said
            assert f"expected datatype '{datatype}'" in said


def test_two_fields_are_refused(grpc_door):
    refusal(grpc_door, message("INT64", int64_contents=[1, 2], int_contents=[1, 2]))


@pytest.mark.parametrize(
    ("datatype", "value"), [("INT8", 128), ("INT8", -129), ("UINT8", 256), ("INT16", 32768), ("UINT16", 65536)]
)
def test_typed_integers_never_wrap(grpc_door, datatype, value):
    said = refusal(grpc_door, message(datatype, **{FIELDS[datatype][0]: [0, value]}))
    assert "'INPUT0'" in said
    assert str(value) in said
    assert datatype in said


def test_half_floats_have_no_typed_form(grpc_door):
    assert "expected datatype 'FP16'" in refusal(grpc_door, message("FP16", fp32_contents=[1, 2]))
    raw = np.array([1, 2], np.float16).tobytes()
    assert grpc_door.infer(message("FP16", raw=[raw])).raw_output_contents[0] == raw


def test_contents_beside_raw_contents_are_refused(grpc_door):
    said = refusal(grpc_door, message("INT64", raw=[b"\0" * 16], int64_contents=[1, 2]))
    assert "contents field must not be specified when using raw_input_contents for 'INPUT0'" in said


@pytest.mark.parametrize("count", [0, 2, 3])
def test_as_many_raw_contents_as_inputs(grpc_door, count):
    assert "'FP32'" in refusal(grpc_door, message("FP32", raw=[b"\0" * 8] * count))


def test_fewer_raw_contents_than_inputs(grpc_door):
    asked = message("add_sub", datatype="FP32", shape=(1, 16), raw=[b"\0" * 64])
    asked.inputs.add(name="INPUT1", datatype="FP32", shape=(1, 16))
    assert "'INPUT1'" in refusal(grpc_door, asked)


@pytest.mark.parametrize("raw", [b"", b"\0" * 4, b"\0" * 7, b"\0" * 9, b"\0" * 40])
def test_sizes_must_agree_with_shapes(grpc_door, raw):
    said = refusal(grpc_door, message("FP32", raw=[raw]))
    assert f"input byte size mismatch for input 'INPUT0' for model 'FP32'. Expected 8, got {len(raw)}" in said


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0]])
def test_counts_must_agree_with_shapes(grpc_door, values):
    assert "'INPUT0'" in refusal(grpc_door, message("FP32", fp32_contents=values))


@pytest.mark.parametrize("shape", [(-1,), (2**62, 2**62), (2**63 - 1,), (0, 2**63 - 1, 2**63 - 1)])
def test_shapes_that_can_not_be(grpc_door, shape):
    assert "'INPUT0'" in refusal(grpc_door, message("FP32", shape=shape, raw=[b"\0" * 8]))


@pytest.mark.parametrize(
    "raw", [b"", b"\x05\0\0\0abc", b"\xff\xff\xff\xff", b"\x01\0\0\0a", b"\0\0\0\0" * 3, b"\0\0\0\0" * 2 + b"\0"]
)
def test_lengths_of_strings_must_add_up(grpc_door, raw):
    assert "'INPUT0'" in refusal(grpc_door, message("BYTES", raw=[raw]))


def test_an_unknown_datatype(grpc_door):
    assert "FP31" in refusal(grpc_door, message("FP32", datatype="FP31", raw=[b"\0" * 8]))


def test_the_same_input_or_output_twice(grpc_door):
    twice = message("FP32", raw=[b"\0" * 8, b"\0" * 8])
    twice.inputs.add(name="INPUT0", datatype="FP32", shape=[2])
    assert "'INPUT0' already exists in request" in refusal(grpc_door, twice)
    twice = message("FP32", raw=[b"\0" * 8])
    for _ in range(2):
        twice.outputs.add(name="OUTPUT0")
    assert "'OUTPUT0' already exists in request" in refusal(grpc_door, twice)


def test_parameters_of_wrong_kinds(grpc_door):
    asked = message("FP32", raw=[b"\0" * 8])
    asked.parameters["priority"].string_param = "high"
    assert "priority" in refusal(grpc_door, asked)
    asked = message("FP32", raw=[b"\0" * 8])
    asked.parameters["empty"].SetInParent()
    assert "empty" in refusal(grpc_door, asked)
    asked = message("FP32", raw=[b"\0" * 8])
    asked.outputs.add(name="OUTPUT0").parameters["classification"].int64_param = -1
    assert "classification" in refusal(grpc_door, asked)


def test_bytes_that_are_no_message(grpc_door):
    call = grpc_door.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    for garbage in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x7f", b"\x08", b"\0" * 10):
        with pytest.raises(grpc.RpcError) as refused:
            call(garbage)
        assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL)
    with pytest.raises(grpc.RpcError) as refused:
        call(b"")
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("method", ["/inference.GRPCInferenceService/Nope", "/nope/ModelInfer", "/x"])
def test_unknown_methods(grpc_door, method):
    with pytest.raises(grpc.RpcError) as refused:
        grpc_door.channel.unary_unary(method)(b"")
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages(grpc_door, compression):
    values = np.zeros(100_000, np.float32).tobytes()
    asked = message("FP32", shape=(100_000,), raw=[values])
    assert grpc_door.stub.ModelInfer(asked, compression=compression).raw_output_contents[0] == values
