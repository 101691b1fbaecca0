"""Executing batches: a batched answer equals the unbatched one, whatever the datatype, and nobody harms a neighbour."""

from typing import Any

import numpy as np
import onnx_models
import pytest

from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.core.tensor import Tensor

ADD_SUB = "max_batch_size: 8"


def test_arrays_of_this_process_are_inputs_too(serve: Any) -> None:
    """In-process callers and other models hand arrays, not bytes; of bfloat16 numpy gives out no buffer."""
    runner = serve(onnx_models.identity("BF16"), "max_batch_size: 8")
    array = onnx_models.sample("BF16", (1, 3))
    for count in (1, 2):
        replies = runner.run_tensors(*[{"INPUT0": Tensor.from_numpy("INPUT0", array)}] * count)
        assert all(_equal(reply.outputs[0].numpy(), array) for reply in replies)


def _equal(left: Any, right: Any) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())


@pytest.mark.parametrize("datatype", onnx_models.ONNX_TYPES)
@pytest.mark.parametrize("rows", [(1,), (1, 1, 1), (2, 1, 3)])
def test_a_batch_gives_what_its_requests_give_alone(serve: Any, datatype: str, rows: tuple[int, ...]) -> None:
    runner = serve(onnx_models.identity(datatype), "max_batch_size: 8")
    inputs = [{"INPUT0": _text(onnx_models.sample(datatype, (n, 5), seed))} for seed, n in enumerate(rows)]
    together = runner.arrays(*inputs)
    alone = [runner.arrays(one)[0] for one in inputs]
    for given, batched, single in zip(inputs, together, alone, strict=True):
        assert _equal(batched["OUTPUT0"], given["INPUT0"])
        assert _equal(single["OUTPUT0"], given["INPUT0"])


def _text(array: Any) -> Any:
    """Random bytes are rarely UTF-8, which ONNX Runtime wants: keep their lengths, make them letters."""
    if array.dtype == np.object_:
        array[...] = np.array([bytes(65 + byte % 26 for byte in item) for item in array.flat], object).reshape(
            array.shape
        )
    return array


def test_add_sub_of_many_rows(serve: Any) -> None:
    runner = serve(onnx_models.add_sub(), ADD_SUB)
    inputs = [
        {"INPUT0": onnx_models.sample("FP32", (n, 16), n), "INPUT1": onnx_models.sample("FP32", (n, 16), n + 9)}
        for n in (1, 3, 2)
    ]
    for given, made in zip(inputs, runner.arrays(*inputs), strict=True):
        assert _equal(made["OUTPUT0"], given["INPUT0"] + given["INPUT1"])
        assert _equal(made["OUTPUT1"], given["INPUT0"] - given["INPUT1"])


def test_outputs_of_a_batch_are_views_of_one_memory(serve: Any) -> None:
    runner = serve(onnx_models.add_sub(), ADD_SUB)
    one = {name: onnx_models.sample("FP32", (1, 16)) for name in ("INPUT0", "INPUT1")}
    replies = runner.run(one, one)
    hosts = [reply.outputs[0].buffer.host() for reply in replies]
    assert hosts[0].obj is hosts[1].obj
    assert all(reply.outputs[0].buffer.owned for reply in replies)


def test_a_staged_batch_does_not_change_answers_already_given(serve: Any) -> None:
    """Large inputs are joined in memory that the next batch uses again; outputs must not live in it."""
    runner = serve(onnx_models.identity(), "max_batch_size: 8")
    first = [{"INPUT0": onnx_models.sample("FP32", (2, 100_000), seed)} for seed in (1, 2)]
    given = runner.arrays(*first)
    runner.arrays(*[{"INPUT0": onnx_models.sample("FP32", (2, 100_000), seed)} for seed in (3, 4)])
    for one, made in zip(first, given, strict=True):
        assert _equal(made["OUTPUT0"], one["INPUT0"])


@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "BF16"])
def test_empty_tensors(serve: Any, datatype: str) -> None:
    runner = serve(onnx_models.identity(datatype), "max_batch_size: 8")
    empty = {"INPUT0": onnx_models.sample(datatype, (1, 0))}
    assert runner.arrays(empty)[0]["OUTPUT0"].shape == (1, 0)
    assert [made["OUTPUT0"].shape for made in runner.arrays(empty, empty)] == [(1, 0), (1, 0)]


def test_dynamic_shapes_without_a_batch_dimension(serve: Any) -> None:
    runner = serve(onnx_models.identity("INT64", ["rows", "columns", 2]), "max_batch_size: 0")
    for shape in ((1, 1, 2), (4, 3, 2), (0, 3, 2)):
        assert runner.arrays({"INPUT0": onnx_models.sample("INT64", shape)})[0]["OUTPUT0"].shape == shape


def test_scalars_are_dims_of_one(serve: Any) -> None:
    io = '{ name: "%s" data_type: TYPE_FP32 dims: [ 1 ] }'
    runner = serve(onnx_models.scalar(), f"input {io % 'X'} output {io % 'Y'}")
    made = runner.arrays({"X": np.array([41], np.float32)})[0]["Y"]
    assert _equal(made, np.array([42], np.float32))


def test_scalars_with_a_reshape(serve: Any) -> None:
    io = '{ name: "%s" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }'
    runner = serve(onnx_models.scalar_rows(), f"max_batch_size: 4 input {io % 'X'} output {io % 'Y'}")
    made = runner.arrays({"X": np.array([1], np.float32)}, {"X": np.array([2, 3], np.float32)})
    assert [one["Y"].tolist() for one in made] == [[[2]], [[3], [4]]]


def test_strings_keep_every_character(serve: Any) -> None:
    runner = serve(onnx_models.identity("BYTES"), "max_batch_size: 4")
    words = np.array([["grüße".encode(), b"", b"a\0b", b"ends\0"]], object)
    assert runner.arrays({"INPUT0": words})[0]["OUTPUT0"].tolist() == words.tolist()


def test_strings_that_are_not_text_fail_only_their_own_request(serve: Any) -> None:
    runner = serve(onnx_models.identity("BYTES"), "max_batch_size: 4")
    good, bad = np.array([[b"fine", b"too"]], object), np.array([[b"\xff\xfe", b"a\0b"]], object)
    replies = runner.run({"INPUT0": good}, {"INPUT0": bad}, {"INPUT0": good})
    assert [type(reply.error) for reply in replies] == [type(None), InvalidArgumentError, type(None)]
    assert replies[2].outputs[0].numpy().tolist() == good.tolist()


def test_an_input_with_a_default_may_be_left_out(serve: Any) -> None:
    io = '{ name: "%s" data_type: TYPE_FP32 dims: [ 2 ] %s }'
    runner = serve(onnx_models.optional_bias(), f"input {io % ('X', '')} output {io % ('Y', '')} max_batch_size: 4")
    assert runner.arrays({"X": np.zeros((1, 2), np.float32)})[0]["Y"].tolist() == [[10, 10]]


def test_an_input_with_a_default_may_be_given_if_the_configuration_names_it(serve: Any) -> None:
    inputs = 'input [ { name: "X" data_type: TYPE_FP32 dims: [ 1, 2 ] }, '
    inputs += '{ name: "BIAS" data_type: TYPE_FP32 dims: [ 1, 2 ] optional: true } ]'
    runner = serve(onnx_models.optional_bias(), inputs + ' output { name: "Y" data_type: TYPE_FP32 dims: [ -1, 2 ] }')
    ones = np.ones((1, 2), np.float32)
    assert runner.arrays({"X": ones})[0]["Y"].tolist() == [[11, 11]]
    assert runner.arrays({"X": ones, "BIAS": ones})[0]["Y"].tolist() == [[2, 2]]


def test_only_requested_outputs_are_computed_when_all_agree(serve: Any) -> None:
    runner = serve(onnx_models.add_sub(), ADD_SUB)
    session = _Spy(runner.instance._session)
    runner.instance._session = session
    one = {name: onnx_models.sample("FP32", (1, 16)) for name in ("INPUT0", "INPUT1")}
    replies = runner.run(one, one, requested=[("OUTPUT1",), ("OUTPUT1",)])
    assert [[tensor.name for tensor in reply.outputs] for reply in replies] == [["OUTPUT1"]] * 2
    replies = runner.run(one, one, requested=[("OUTPUT1",), ()])
    assert [[tensor.name for tensor in reply.outputs] for reply in replies] == [["OUTPUT1"], ["OUTPUT0", "OUTPUT1"]]
    assert session.names == [["OUTPUT1"], ["OUTPUT0", "OUTPUT1"]]


class _Spy:
    """Notes which outputs a session was asked for."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.names: list[list[str]] = []

    def run(self, names: list[str], *rest: Any) -> Any:
        self.names.append(list(names))
        return self._session.run(names, *rest)


def test_a_failing_run_fails_every_request_and_names_the_model(serve: Any) -> None:
    runner = serve(onnx_models.failing_reshape(), "max_batch_size: 4")
    one = {"X": np.ones((1, 4), np.float32)}
    replies = runner.run(one, one)
    assert len(replies) == 2
    for reply in replies:
        assert isinstance(reply.error, BackendError)
        assert "model 'm' failed in ONNX Runtime" in str(reply.error)
        assert "cannot be reshaped" in str(reply.error)
        assert "onnxruntime_src" not in str(reply.error)


def test_a_value_that_makes_the_run_fail_fails_only_its_own_request(serve: Any) -> None:
    runner = serve(onnx_models.looked_up(), "max_batch_size: 4")
    first, wrong, last = runner.run(*[{"INDEX": np.array([[index]], np.int64)} for index in (1, 9, 3)])
    assert isinstance(wrong.error, BackendError)
    assert [reply.outputs[0].numpy().tolist() for reply in (first, last)] == [[[20.0]], [[40.0]]]


@pytest.mark.parametrize("requests", [1, 2])
def test_outputs_that_do_not_keep_the_rows_are_refused(serve: Any, requests: int) -> None:
    runner = serve(onnx_models.doubled(), "max_batch_size: 4")
    replies = runner.run(*[{"X": np.ones((1, 4), np.float32)}] * requests)
    assert len(replies) == requests
    for reply in replies:
        assert isinstance(reply.error, BackendError)
        assert "output 'TWICE' with shape [2, 4]" in str(reply.error)
        assert "first dimension must be 1" in str(reply.error)
