"""Right requests through every door: values, shapes, order and selection of outputs, versions, text, every datatype."""

import numpy as np
import pytest

from charonia.core.datatypes import DATATYPES
from tests.models import onnx_models
from tests.models.repository import write_config, write_python_model

BOTH = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            answers = []
            for request in requests:
                array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]))
            return answers
"""
# BF16 has no numpy form in the client; it has a test of its own at the wire.
CLIENT_DATATYPES = [name for name in DATATYPES if name != "BF16"]
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'


def lay_out(repository):
    onnx_models.save(onnx_models.add_sub(), repository, "add_sub")
    for version in (1, 3):
        onnx_models.save(onnx_models.add_sub(), repository, "versions", version)
    write_config(repository, "versions", "version_policy: { all {} }")
    for datatype in CLIENT_DATATYPES:
        onnx_models.save(onnx_models.identity(datatype), repository, f"onnx_{datatype}")
    configured = {name: ("TYPE_STRING" if name == "BYTES" else f"TYPE_{name}") for name in CLIENT_DATATYPES}
    for datatype, data_type in configured.items():
        if datatype not in ("FP32", "BYTES", "FP16", "BOOL", "INT64"):
            continue
        for form, extra in (("isolated", ""), ("inline", INLINE)):
            config = f"""
                max_batch_size: 8
                dynamic_batching {{ }}
                input [ {{ name: "IN" data_type: {data_type} dims: [ -1 ] }} ]
                output [ {{ name: "OUT" data_type: {data_type} dims: [ -1 ] }} ]
                {extra}
            """
            write_python_model(repository, f"{form}_{datatype}", config, BOTH)
    onnx_models.save(onnx_models.scalar_rows(), repository, "scalar_rows")
    write_config(
        repository,
        "scalar_rows",
        """
        max_batch_size: 4
        input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]
        output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } } ]
        """,
    )
    onnx_models.save(onnx_models.scalar(), repository, "scalar")


def pair(rows):
    first = np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)
    return {"INPUT0": first, "INPUT1": np.full((rows, 16), 0.5, np.float32)}


def test_values_and_order_of_outputs(door):
    inputs = pair(3)
    answer = door.infer("add_sub", inputs, id="seven")
    assert list(answer.outputs) == ["OUTPUT0", "OUTPUT1"]
    np.testing.assert_array_equal(answer["OUTPUT0"], inputs["INPUT0"] + inputs["INPUT1"])
    np.testing.assert_array_equal(answer["OUTPUT1"], inputs["INPUT0"] - inputs["INPUT1"])
    assert answer.id == "seven"


def test_requested_outputs_come_alone_and_in_the_models_order(door):
    assert list(door.infer("add_sub", pair(1), outputs=["OUTPUT1"]).outputs) == ["OUTPUT1"]
    assert list(door.infer("add_sub", pair(1), outputs=["OUTPUT1", "OUTPUT0"]).outputs) == ["OUTPUT0", "OUTPUT1"]


def test_the_highest_version_serves_unless_another_is_named(door):
    assert door.infer("versions", pair(1)).model_version == "3"
    assert door.infer("versions", pair(1), version="1").model_version == "1"


@pytest.mark.parametrize("datatype", CLIENT_DATATYPES)
def test_onnx_returns_every_datatype_unchanged(door, datatype):
    sent = json_safe(onnx_models.sample(datatype, (2, 5)))
    np.testing.assert_array_equal(door.infer(f"onnx_{datatype}", {"INPUT0": sent})["OUTPUT0"], sent)


@pytest.mark.parametrize("form", ["isolated", "inline"])
@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "FP16", "BOOL", "INT64"])
def test_python_returns_every_kind_of_datatype_unchanged(door, form, datatype):
    sent = json_safe(onnx_models.sample(datatype, (3, 4)))
    np.testing.assert_array_equal(door.infer(f"{form}_{datatype}", {"IN": sent})["OUT"], sent)


def json_safe(array):
    """Text that JSON can carry; the other doors take any bytes, which has a test below."""
    if array.dtype == np.object_:
        array = array.copy()
        array[...] = [[element.hex().encode() for element in row] for row in array]
    return array


@pytest.mark.parametrize("model", ["onnx_BYTES", "isolated_BYTES", "inline_BYTES"])
def test_text_with_every_oddity(door, model):
    words = ["", "a", "nul\x00inside", "trailing\x00", "größer 😀", '"quoted"\\', "\n\t", "x" * 10_000]
    sent = np.array([[word.encode() for word in words]], np.object_)
    names = ("INPUT0", "OUTPUT0") if model.startswith("onnx") else ("IN", "OUT")
    np.testing.assert_array_equal(door.infer(model, {names[0]: sent})[names[1]], sent)


@pytest.mark.parametrize("model", ["onnx_FP32", "isolated_FP32", "inline_FP32"])
def test_floats_come_back_to_the_bit(door, model):
    sent = np.array([[np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38, 0.1]], np.float32)
    names = ("INPUT0", "OUTPUT0") if model.startswith("onnx") else ("IN", "OUT")
    got = door.infer(model, {names[0]: sent})[names[1]]
    np.testing.assert_array_equal(got, sent)
    assert np.signbit(got[0, 3])


@pytest.mark.parametrize("datatype", ["INT64", "UINT64"])
def test_large_integers_keep_every_digit(door, datatype):
    info = np.iinfo(DATATYPES[datatype].numpy)
    sent = np.array([[info.max, info.min, 2**53 + 1]], info.dtype)
    np.testing.assert_array_equal(door.infer(f"onnx_{datatype}", {"INPUT0": sent})["OUTPUT0"], sent)


@pytest.mark.parametrize("model", ["onnx_FP32", "isolated_FP32", "inline_FP32"])
def test_empty_tensors(door, model):
    names = ("INPUT0", "OUTPUT0") if model.startswith("onnx") else ("IN", "OUT")
    got = door.infer(model, {names[0]: np.zeros((2, 0), np.float32)})[names[1]]
    assert got.shape == (2, 0)


def test_rows_of_scalars_by_reshape(door):
    got = door.infer("scalar_rows", {"X": np.array([[1], [5]], np.float32)})["Y"]
    np.testing.assert_array_equal(got, np.array([[2], [6]], np.float32))


def test_a_model_of_rank_0_takes_one_element(door):
    np.testing.assert_array_equal(door.infer("scalar", {"X": np.array([2], np.float32)})["Y"], [3])
