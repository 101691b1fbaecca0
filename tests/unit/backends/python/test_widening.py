"""Outputs whose datatype is not the configured one: converted when nothing can be lost, refused otherwise."""

import ml_dtypes
import numpy as np
import pytest

from charonia.backends.python.widening import loses_nothing, widened
from charonia.core.datatypes import DATATYPES
from charonia.core.tensor import Tensor


def echo(expression):
    return f"""
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse([
                pb_utils.Tensor("Y", {expression}),
            ]) for x in [request.inputs()[0].as_numpy() for request in requests]]
    """


@pytest.mark.parametrize(
    ("given", "wanted", "values"),
    [
        ("float16", "FP32", [0.5, -2, 65504]),
        ("float32", "FP64", [0.25, -3]),
        ("float16", "FP64", []),
        ("int8", "INT32", [-128, 127]),
        ("uint8", "INT16", [0, 255]),
        ("uint32", "FP64", [2**32 - 1]),
        ("int16", "FP32", [-32768, 32767]),
    ],
)
def test_what_fits_is_converted_to_the_configured_type(serve, given, wanted, values):
    served = serve(echo(f"x.astype(np.{given})"), inputs="X:TYPE_FP64:-1", outputs=f"Y:TYPE_{wanted}:-1")
    answer = served.run({"X": np.array(values, np.float64)}).answers[0]
    assert answer.error is None, answer.error
    (tensor,) = answer.outputs
    assert tensor.datatype == wanted
    assert tensor.numpy().dtype == DATATYPES[wanted].numpy
    assert tensor.numpy().tolist() == values


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("float64", "FP32"),
        ("float32", "FP16"),
        ("int64", "FP64"),
        ("uint64", "FP64"),
        ("int32", "FP32"),
        ("float32", "INT64"),
        ("bool_", "INT8"),
        ("int8", "STRING"),
    ],
)
def test_what_could_lose_something_is_refused(serve, workshop, given, wanted):
    served = serve(echo(f"x.astype(np.{given})"), outputs=f"Y:TYPE_{wanted}:-1")
    text = str(served.run({"X": np.ones(1, np.float32)}).error())
    assert "model 'm' returned output 'Y' with datatype" in text
    assert f"its configuration says {wanted.replace('STRING', 'BYTES')}" in text
    assert workshop.log.messages == []


def test_bfloat16_and_what_is_no_datatype():
    assert loses_nothing("BF16", "FP32")
    assert not loses_nothing("BF16", "FP16")
    assert not loses_nothing("FP16", "BF16")
    assert not loses_nothing("FP8", "FP32")
    made = widened(Tensor.from_numpy("y", np.array([1.5, -2], ml_dtypes.bfloat16)), "FP32")
    assert (made.datatype, made.numpy().tolist()) == ("FP32", [1.5, -2])


def test_one_warning_for_each_output_whatever_the_instance_or_shape(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy().astype(np.float16)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x), pb_utils.Tensor("Z", x)]) for _ in requests]
    """
    served = serve(code, outputs="Y:TYPE_FP32:-1 Z:TYPE_FP64:-1", instances=2)
    for size in (1, 2, 3):
        served.call(X=np.zeros(size, np.float32))
    served.instance = served.instances[1]
    served.call(X=np.zeros(1, np.float32))
    assert len(workshop.log.messages) == 2
    for output, wanted in (("Y", "FP32"), ("Z", "FP64")):
        text = f"model 'm' returns output '{output}' with datatype FP16, its configuration says {wanted}"
        assert any(text in message for message in workshop.log.messages)


def test_only_the_output_that_differs_is_converted_in_a_batch(serve):
    """Large and small tensors, rows of several shapes: through the frame and through shared memory."""
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            answers = []
            for number, request in enumerate(requests):
                x = request.inputs()[0].as_numpy()
                y = x.astype(np.float16) if number % 2 else x
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y), pb_utils.Tensor("Z", x)]))
            return answers
    """
    served = serve(code, inputs="X:TYPE_FP32:-1", outputs="Y:TYPE_FP32:-1 Z:TYPE_FP32:-1", max_batch_size=8)
    rows = [np.arange(size, dtype=np.float32).reshape(1, -1) % 512 for size in (3, 5, 30000, 40000)]
    batch = served.run(*[{"X": row} for row in rows])
    for index, row in enumerate(rows):
        for output in batch.outputs(index).values():
            assert output.dtype == np.float32
            assert np.array_equal(output, row)


def test_the_rank_of_a_converted_output_is_checked(serve, workshop):
    served = serve(echo("x.astype(np.float16)"), outputs="Y:TYPE_FP32:2,2")
    assert "shape [3], its configuration says [2, 2]" in str(served.run({"X": np.zeros(3, np.float32)}).error())
    assert workshop.log.messages == []


@pytest.mark.parametrize(
    ("given", "wanted", "beyond"),
    [
        ("int64", "INT32", [2**31, -(2**31) - 1]),
        ("int64", "UINT8", [256, -1]),
        ("int8", "UINT8", [-1, -128]),
    ],
)
def test_whole_numbers_are_converted_where_they_fit_and_refused_where_not(serve, given, wanted, beyond):
    code = echo(f"x.astype(np.int64).astype(np.{given})")
    served = serve(code, inputs="X:TYPE_FP64:-1", outputs=f"Y:TYPE_{wanted}:-1")
    for value in (*beyond, 100):
        batch = served.run({"X": np.array([1, value], np.float64)})
        if value == 100:
            (tensor,) = batch.answers[0].outputs
            assert (tensor.datatype, tensor.numpy().tolist()) == (wanted, [1, 100])
        else:
            assert f"its configuration says {wanted}, which does not have all of its values" in str(batch.error())


def test_0_and_1_are_truth_values(serve):
    served = serve(echo("x.astype(np.float16)"), inputs="X:TYPE_FP64:-1", outputs="Y:TYPE_BOOL:-1")
    (tensor,) = served.run({"X": np.array([0, 1], np.float64)}).answers[0].outputs
    assert (tensor.datatype, tensor.numpy().tolist()) == ("BOOL", [False, True])
    error = str(served.run({"X": np.array([0, 0.5], np.float64)}).error())
    assert "its configuration says BOOL, which does not have all of its values" in error
