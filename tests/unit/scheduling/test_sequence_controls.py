"""What a model is told of the sequence of a request, in every form that it may ask for."""

import numpy as np
import pytest
from google.protobuf import text_format

from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.scheduling.sequence_controls import SequenceControls
from charonia.testing.requests import KeptReplies, make_request
from tests.unit.scheduling.sequence_world import BOTH, END, START


def controls(text, rows=4):
    config = ModelConfig(name="m", max_batch_size=rows)
    text_format.Parse(f"sequence_batching {{ {text} }}", config)
    return SequenceControls(config)


def flag(kind, pair):
    return f'control_input {{ name: "{kind}" control {{ kind: CONTROL_SEQUENCE_{kind} {pair} }} }}'


def corrid(datatype):
    return f'control_input {{ name: "ID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_{datatype} }} }}'


def applied(made, **options):
    request = make_request(KeptReplies(), **options)
    made.apply(request)
    return {name: tensor for name, tensor in request.inputs.items() if name != "INPUT0"}


@pytest.mark.parametrize(
    ("pair", "dtype", "false", "true"),
    [
        ("int32_false_true: [ 0, 1 ]", np.int32, 0, 1),
        ("int32_false_true: [ 1, 0 ]", np.int32, 1, 0),
        ("int32_false_true: [ -5, 70000 ]", np.int32, -5, 70000),
        ("fp32_false_true: [ -0.5, 2 ]", np.float32, -0.5, 2.0),
        ("bool_false_true: [ false, true ]", np.bool_, False, True),
        ("bool_false_true: [ true, false ]", np.bool_, True, False),
    ],
)
@pytest.mark.parametrize("flags", [0, START, END, BOTH])
def test_flags(pair, dtype, false, true, flags):
    made = controls("".join(flag(kind, pair) for kind in ("START", "END", "READY")))
    seen = applied(made, flags=flags)
    expected = {"START": true if flags & START else false, "END": true if flags & END else false, "READY": true}
    assert {name: tensor.numpy().tolist() for name, tensor in seen.items()} == {
        name: [[value]] for name, value in expected.items()
    }
    assert {tensor.numpy().dtype for tensor in seen.values()} == {np.dtype(dtype)}


def test_padding_is_not_ready_and_in_no_sequence():
    made = controls(
        flag("START", "int32_false_true: [ 7, 8 ]") + flag("READY", "fp32_false_true: [ 0, 1 ]") + corrid("UINT64")
    )
    request = make_request(KeptReplies(), flags=START, correlation_id=9)
    made.apply_not_ready(request)
    assert [request.inputs[name].numpy().tolist() for name in ("START", "READY", "ID")] == [[[7]], [[0.0]], [[0]]]


def test_a_model_that_does_not_batch_gets_one_dimension():
    seen = applied(controls(flag("START", "int32_false_true: [ 0, 1 ]") + corrid("INT32"), rows=0), correlation_id=3)
    assert {name: tensor.shape for name, tensor in seen.items()} == {"START": (1,), "ID": (1,)}


@pytest.mark.parametrize(
    ("datatype", "id", "expected"),
    [
        ("UINT64", 2**64 - 1, 2**64 - 1),
        ("INT64", 5, 5),
        ("INT64", 2**64 - 3, -3),
        ("UINT32", 2**32 - 1, 2**32 - 1),
        ("INT32", 2**31 - 1, 2**31 - 1),
        ("INT32", 2**64 - 1, -1),
        ("STRING", "a", b"a"),
        ("STRING", "Grüße " * 10, ("Grüße " * 10).encode()),
        ("STRING", "7", b"7"),
    ],
)
def test_ids_are_passed_as_they_are(datatype, id, expected):
    made = controls(corrid(datatype))
    request = make_request(KeptReplies(), correlation_id=id)
    made.check(request)
    made.apply(request)
    assert request.inputs["ID"].numpy().tolist() == [[expected]]
    assert request.inputs["ID"].datatype == ("BYTES" if datatype == "STRING" else datatype)


@pytest.mark.parametrize(
    ("datatype", "id", "words"),
    [
        ("INT32", 2**31, "correlation id 2147483648 does not fit .* 'ID' of model 'm', whose data-type is 'INT32'"),
        ("INT32", 2**63, "does not fit"),
        ("UINT32", 2**32, "correlation id 4294967296 does not fit"),
        ("UINT32", 2**64 - 1, "does not fit"),
        ("INT64", "7", "control 'ID' data-type is 'BYTES', but model 'm' expects 'INT64': .*'7' is a text"),
        ("UINT64", "x" * 128, "expects 'UINT64'"),
        (
            "STRING",
            7,
            "control 'ID' data-type is 'UINT64', but model 'm' expects 'BYTES': correlation id 7 is a number",
        ),
    ],
)
def test_ids_that_the_model_cannot_read_are_refused(datatype, id, words):
    request = make_request(KeptReplies(), correlation_id=id, id="r1")
    with pytest.raises(InvalidArgumentError, match=words) as told:
        controls(corrid(datatype)).check(request)
    assert "[request id: r1]" in str(told.value)


@pytest.mark.parametrize("id", [3, "three"])
def test_without_an_id_control_every_id_will_do(id):
    made = controls(flag("START", "int32_false_true: [ 0, 1 ]"))
    made.check(make_request(KeptReplies(), correlation_id=id))
    assert list(applied(made, correlation_id=id)) == ["START"]


def test_sequences_without_controls():
    assert applied(controls("direct { }"), correlation_id=3, flags=START) == {}
