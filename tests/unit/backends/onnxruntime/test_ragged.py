"""Ragged batches: unequal requests in one run, each answered as if it were alone."""

from typing import Any

import numpy as np
import onnx_models
import pytest

from charonia.core.errors import Code
from charonia.core.tensor import Array

SEGMENTS = """
    max_batch_size: 8
    input { name: "X" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }
    output [ { name: "SUM" data_type: TYPE_FP32 dims: 1 }, { name: "TWICE" data_type: TYPE_FP32 dims: -1 } ]
    batch_input {
      kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "EDGES" data_type: TYPE_INT32 source_input: "X"
    }
    batch_output { target_name: "TWICE" source_input: "X" }
"""
ECHO = """
    max_batch_size: 8
    input { name: "INPUT0" data_type: %(type)s dims: [ -1, 2 ] allow_ragged_batch: true }
    output { name: "OUTPUT0" data_type: %(type)s dims: [ -1, 2 ] }
    batch_output { target_name: "OUTPUT0" source_input: "INPUT0" }
"""


def row(*values: float) -> dict[str, Array]:
    return {"X": np.array([values], np.float32)}


def test_a_batch_of_unequal_requests_is_each_of_them_alone(serve: Any) -> None:
    runner = serve(onnx_models.segments(), SEGMENTS)
    sent = [row(1, 2, 3), row(), row(10), row(4, 5)]
    together = runner.arrays(*sent)
    for one, outputs in zip(sent, together, strict=True):
        (alone,) = runner.arrays(one)
        assert outputs["SUM"].tolist() == alone["SUM"].tolist() == [[one["X"].sum()]]
        assert outputs["TWICE"].tolist() == alone["TWICE"].tolist() == (2 * one["X"]).tolist()


def test_what_nobody_asked_for_is_not_answered(serve: Any) -> None:
    runner = serve(onnx_models.segments(), SEGMENTS)
    replies = runner.run(row(1, 2), row(3), requested=[("SUM",), ("TWICE",)])
    assert [[tensor.name for tensor in reply.outputs] for reply in replies] == [["SUM"], ["TWICE"]]
    replies = runner.run(row(1, 2), row(3), requested=[("TWICE",), ("TWICE",)])
    assert [reply.outputs[0].numpy().tolist() for reply in replies] == [[[2, 4]], [[6]]]


def test_who_fails_the_run_fails_alone(serve: Any) -> None:
    runner = serve(onnx_models.segments(), SEGMENTS)
    replies = runner.run(row(1, 2), row(400, 600), row(3))
    assert [reply.error is None for reply in replies] == [True, False, True]
    assert replies[1].error.code is Code.INTERNAL
    assert replies[2].outputs[0].numpy().tolist() == [[3]]


def test_several_rows_and_several_dimensions(serve: Any) -> None:
    runner = serve(onnx_models.identity("FP32", ["E"]), ECHO % {"type": "TYPE_FP32"})
    sent = [
        {"INPUT0": np.random.default_rng(0).random(shape, np.float32)} for shape in ((2, 3, 2), (1, 0, 2), (3, 1, 2))
    ]
    for one, outputs in zip(sent, runner.arrays(*sent), strict=True):
        np.testing.assert_array_equal(outputs["OUTPUT0"], one["INPUT0"])


@pytest.mark.parametrize("datatype", ["BF16", "BOOL", "INT64", "FP16"])
def test_every_kind_of_datatype(serve: Any, datatype: str) -> None:
    runner = serve(onnx_models.identity(datatype, ["E"]), ECHO % {"type": f"TYPE_{datatype}"})
    sent = [{"INPUT0": onnx_models.sample(datatype, shape)} for shape in ((1, 3, 2), (1, 1, 2), (2, 2, 2))]
    for one, outputs in zip(sent, runner.arrays(*sent), strict=True):
        np.testing.assert_array_equal(outputs["OUTPUT0"], one["INPUT0"])


def test_strings(serve: Any) -> None:
    runner = serve(onnx_models.identity("BYTES", ["E"]), ECHO % {"type": "TYPE_STRING"})
    sent = [
        {"INPUT0": np.array(rows, np.object_)}
        for rows in ([[[b"a", b""]]], [[["ü".encode(), b"b"], [b"c", b"d" * 300]]])
    ]
    for one, outputs in zip(sent, runner.arrays(*sent), strict=True):
        assert outputs["OUTPUT0"].tolist() == one["INPUT0"].tolist()


def test_tensors_that_are_too_large_to_be_joined_in_a_small_piece(serve: Any) -> None:
    runner = serve(onnx_models.identity("FP32", ["E"]), ECHO % {"type": "TYPE_FP32"})
    sent = [{"INPUT0": np.full((1, rows, 2), rows, np.float32)} for rows in (200_000, 0, 1, 70_000)]
    for _ in range(2):  # the memory is used again
        for one, outputs in zip(sent, runner.arrays(*sent), strict=True):
            np.testing.assert_array_equal(outputs["OUTPUT0"], one["INPUT0"])


def test_ragged_and_other_inputs_in_one_model(serve: Any) -> None:
    config = """
        max_batch_size: 4
        input [ { name: "INPUT0" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true },
                { name: "INPUT1" data_type: TYPE_FP32 dims: 1 reshape { } } ]
        output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 },
                 { name: "OUTPUT1" data_type: TYPE_FP32 dims: 1 reshape { } } ]
        batch_output { target_name: "OUTPUT0" source_input: "INPUT0" }
    """
    runner = serve(onnx_models.identity("FP32", ["E"], pairs=2), config)
    sent = [
        {"INPUT0": np.array([[1, 2]], np.float32), "INPUT1": np.array([5], np.float32)},
        {"INPUT0": np.array([[3], [4]], np.float32), "INPUT1": np.array([6, 7], np.float32)},
    ]
    first, second = runner.arrays(*sent)
    assert (first["OUTPUT0"].tolist(), first["OUTPUT1"].tolist()) == ([[1, 2]], [[5]])
    assert (second["OUTPUT0"].tolist(), second["OUTPUT1"].tolist()) == ([[3], [4]], [[6], [7]])


def test_an_output_that_has_not_what_it_is_scattered_by(serve: Any) -> None:
    config = """
        max_batch_size: 4
        input { name: "X" data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true }
        output { name: "TWICE" data_type: TYPE_FP32 dims: [ -1, 2 ] }
        batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "EDGES" data_type: TYPE_INT32
                      source_input: "X" }
        batch_output { target_name: "TWICE" source_input: "X" }
    """
    runner = serve(onnx_models.segments(), config)
    for reply in runner.run(row(1, 2), row(3)):
        assert reply.error.code is Code.INTERNAL
        assert "output 'TWICE'" in str(reply.error)


def test_rows_that_the_model_does_not_keep(serve: Any) -> None:
    """A request of two rows has one sum: an output for each request is not one for each row."""
    runner = serve(onnx_models.segments(), SEGMENTS)
    alone, two = runner.run(row(1), {"X": np.ones((2, 2), np.float32)})
    assert alone.error is None
    assert "'SUM' with shape [1, 1] for a batch of 2 rows" in str(two.error)


def test_without_batches_a_ragged_input_is_flat_all_the_same(serve: Any, log: Any) -> None:
    config = (ECHO % {"type": "TYPE_FP32"}).replace("max_batch_size: 8", "max_batch_size: 0")
    runner = serve(onnx_models.identity("FP32", ["N"]), config)
    (outputs,) = runner.arrays({"INPUT0": np.ones((3, 2), np.float32)})
    assert outputs["OUTPUT0"].shape == (3, 2)
    assert log.of("warning") == []


def test_a_ragged_input_needs_a_flat_one_in_the_model(serve: Any) -> None:
    with pytest.raises(Exception, match=r"allow_ragged_batch, which needs the shape \[-1\]; model.onnx has \[-1, -1\]"):
        serve(onnx_models.identity(), ECHO.replace("[ -1, 2 ]", "-1") % {"type": "TYPE_FP32"})
