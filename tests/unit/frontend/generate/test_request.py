"""Bodies of generate requests: members that are inputs become tensors, the others parameters."""

import json

import ml_dtypes
import numpy as np
import pytest

from charonia.config.io import InputSpec
from charonia.core.errors import InvalidArgumentError
from charonia.frontend.generate.request import MAX_VALUES, Limits, Target, read_body

LIMITS = Limits(input_bytes=4096, parameters=3)


def read(body, *inputs, batched=False, limits=LIMITS):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_body(text, Target("m", inputs, batched), limits)


def value_of(value, datatype, dims=(-1,), **options):
    """The array that the input X becomes; `value` is JSON text or a value."""
    text = value if isinstance(value, str) else json.dumps(value)
    body = read(f'{{"X": {text}}}'.encode(), InputSpec("X", datatype, dims), **options)
    return body.inputs["X"].numpy()


def fault_of(*arguments, **options):
    with pytest.raises(InvalidArgumentError) as told:
        read(*arguments, **options)
    return str(told.value)


def value_fault(value, datatype, dims=(-1,), **options):
    with pytest.raises(InvalidArgumentError, match=r"input 'X'.*model 'm'") as told:
        value_of(value, datatype, dims, **options)
    return str(told.value)


INTEGERS = {
    "UINT8": (0, 2**8 - 1),
    "UINT16": (0, 2**16 - 1),
    "UINT32": (0, 2**32 - 1),
    "UINT64": (0, 2**64 - 1),
    "INT8": (-(2**7), 2**7 - 1),
    "INT16": (-(2**15), 2**15 - 1),
    "INT32": (-(2**31), 2**31 - 1),
    "INT64": (-(2**63), 2**63 - 1),
}


@pytest.mark.parametrize("datatype", INTEGERS)
def test_integers_are_exact_and_never_wrap(datatype):
    low, high = INTEGERS[datatype]
    assert value_of([low, high], datatype).tolist() == [low, high]
    for beyond in (low - 1, high + 1, 10**400):
        assert f"out of range for {datatype}" in value_fault([0, beyond], datatype)


@pytest.mark.parametrize("wrong", ["1.5", "1.0", "true", '"1"', "null", "{}"])
def test_what_is_no_integer(wrong):
    assert "attempt to access JSON non-signed-integer as signed-integer" in value_fault(f"[1, {wrong}]", "INT32")
    assert "attempt to access JSON non-unsigned-integer as unsigned-integer" in value_fault(wrong, "UINT32")


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_fractions(datatype):
    dtype = {"FP16": np.float16, "BF16": ml_dtypes.bfloat16, "FP32": np.float32, "FP64": np.float64}[datatype]
    got = value_of("[0.1, 2, -0.0, NaN, Infinity, -Infinity]", datatype)
    assert got.dtype == dtype
    assert got.tobytes() == np.array([0.1, 2, -0.0, np.nan, np.inf, -np.inf], dtype).tobytes()


@pytest.mark.parametrize(
    ("datatype", "beyond"), [("FP16", "65536"), ("BF16", "3.5e38"), ("FP32", "-3.5e38"), ("FP64", "1e400")]
)
def test_numbers_that_are_too_large_do_not_become_infinite(datatype, beyond):
    assert f"out of range for {datatype}" in value_fault(f"[Infinity, {beyond}]", datatype)
    assert f"out of range for {datatype}" in value_fault("1" + 400 * "0", datatype)


@pytest.mark.parametrize("wrong", ["true", '"NaN"', "null", "{}"])
def test_what_is_no_number(wrong):
    assert "attempt to access JSON non-number as double" in value_fault(wrong, "FP32")


def test_booleans():
    assert value_of([True, False, 0, 1], "BOOL").tolist() == [True, False, False, True]
    for wrong, got in (
        ('"false"', "a string"),
        ("123", "the number 123"),
        ("-1", "the number -1"),
        ("1.0", "the number"),
    ):
        assert f"attempt to access JSON non-boolean as boolean; got {got}" in value_fault(f"[true, {wrong}]", "BOOL")


def test_text():
    texts = ["", "hé你😀", "a\x00b", '\\"']
    assert value_of(texts, "BYTES").tolist() == [each.encode() for each in texts]
    assert value_of('"\\ud83d\\ude00"', "BYTES").tolist() == ["😀".encode()]


@pytest.mark.parametrize("wrong", ["5", "true", "null", '["a", 1]', '[["a"], 1]', '{"a": 1}', '[{"a": 1}]'])
def test_what_is_no_text(wrong):
    fault = value_fault(wrong, "BYTES")
    assert "attempt to access JSON non-string as string" in fault or "beside a list" in fault


def test_half_a_surrogate_pair_is_no_text():
    for body in ('{"X": "\\ud83d"}', '{"id": "\\ude00"}', '{"p": "\\ud800"}', '{"\\ud800": 1}'):
        assert "lone surrogate" in fault_of(body.encode(), InputSpec("X", "BYTES", (1,)))


@pytest.mark.parametrize(
    ("value", "dims", "batched", "shape"),
    [
        (1, (1,), False, (1,)),
        (1, (), False, ()),
        (1, (-1,), True, (1, 1)),
        ([1, 2], (-1,), True, (1, 2)),
        ([1, 2], (1,), True, (2, 1)),
        ([1, 2, 3, 4], (2,), True, (2, 2)),
        ([1, 2, 3, 4], (-1, 2, -1), False, (1, 2, 2)),
        ([1], (1, 1), False, (1, 1)),
        ([], (-1,), True, (1, 0)),
        # As deep as the input has dimensions: then it is its shape.
        ([[1], [2]], (-1,), True, (2, 1)),
        ([[1, 2]], (-1, -1), False, (1, 2)),
        ([[[1, 2], [3, 4]]], (2, 2), True, (1, 2, 2)),
        # Otherwise nesting means nothing.
        ([[1, 2], [3, 4]], (2, 2), True, (1, 2, 2)),
        ([[[[1]]]], (1,), False, (1,)),
    ],
)
def test_shapes(value, dims, batched, shape):
    assert value_of(value, "INT32", dims, batched=batched).shape == shape
    assert value_of(value, "FP64", dims, batched=batched).shape == shape


@pytest.mark.parametrize(
    ("value", "dims"), [([1, 2, 3], (2,)), ([1, 2], (1, 1)), (1, (16,)), ([], (2,)), ([1, 2, 3], (2, -1))]
)
def test_elements_that_fit_no_shape(value, dims):
    words = "The schema can not convert input 'X' to tensor with proper shape"
    assert words in value_fault(value, "INT32", dims)


def test_lists_of_different_lengths_are_no_shape():
    assert "one length" in value_fault([[1], [2, 3]], "INT32", (-1, -1))


def test_nesting_has_an_end():
    assert value_of("[" * 100 + "1" + "]" * 100, "INT32").tolist() == [1]
    for depth in (101, 5000):
        fault = fault_of(b'{"X": ' + b"[" * depth + b"1" + b"]" * depth + b"}", InputSpec("X", "INT32", (1,)))
        assert "JSON nesting depth exceeds maximum allowed limit (100)" in fault


def test_other_members_are_parameters():
    body = read({"X": "a", "t": 0.5, "parameters": {"k": 1, "on": True}}, InputSpec("X", "BYTES", (1,)))
    assert list(body.inputs) == ["X"]
    assert body.parameters == {"t": 0.5, "k": 1, "on": True}


def test_inputs_may_stand_among_the_parameters():
    body = read({"parameters": {"X": "a", "s": "text"}}, InputSpec("X", "BYTES", (1,)))
    assert body.inputs["X"].numpy().tolist() == [b"a"]
    assert body.parameters == {"s": "text"}


def test_an_input_may_have_any_name():
    body = read({"id": "7", "parameters": 5}, InputSpec("id", "BYTES", (1,)), InputSpec("parameters", "INT32", (1,)))
    assert list(body.inputs) == ["id", "parameters"]
    assert body.id == ""


def test_an_id():
    assert read({"id": "q1"}).id == "q1"
    assert read({}).id == ""
    assert "Unable to parse 'id': attempt to access JSON non-string as string" in fault_of({"id": 5})


@pytest.mark.parametrize("wrong", [None, [], [1], {"a": 1}])
def test_parameters_are_plain(wrong):
    words = "parameter 'o' has invalid type. It should be either 'int', 'bool', or 'string'"
    assert words in fault_of({"o": wrong})
    assert f"Converting keyword: 'parameters': {words}" in fault_of({"parameters": {"o": wrong}})


@pytest.mark.parametrize("wrong", [None, [], 1, "x"])
def test_what_is_no_object_of_parameters(wrong):
    assert "Expected JSON object for keyword: 'parameters'" in fault_of({"parameters": wrong})


def test_parameters_of_64_bits_and_no_more():
    assert read({"a": -(2**63), "b": 2**64 - 1}).parameters == {"a": -(2**63), "b": 2**64 - 1}
    assert "64 bits" in fault_of({"a": 2**64})


@pytest.mark.parametrize(
    ("body", "twice"),
    [
        (b'{"X": 1, "Y": 1, "X": 2}', "input 'X'"),
        (b'{"X": 1, "Y": 1, "Y": 1, "X": 2}', "input 'Y'"),
        (b'{"X": 1, "parameters": {"X": 1}}', "input 'X'"),
        (b'{"a": 1, "a": 1}', "parameter 'a'"),
        (b'{"a": 1, "parameters": {"a": 1}}', "parameter 'a'"),
        (b'{"parameters": {"a": 1}, "parameters": {"a": 1}}', "parameter 'a'"),
        (b'{"id": "1", "id": "1"}', "member 'id'"),
    ],
)
def test_duplicates(body, twice):
    fault = fault_of(body, InputSpec("X", "INT32", (1,)), InputSpec("Y", "INT32", (1,)))
    assert f"{twice} already exists in request for model 'm'" in fault


def test_the_first_fault_is_told():
    specs = InputSpec("X", "BYTES", (1,)), InputSpec("Y", "BOOL", (1,))
    assert "non-string" in fault_of(b'{"X": true, "Y": "a"}', *specs)
    assert "non-boolean" in fault_of(b'{"Y": "a", "X": true}', *specs)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "failed to parse the request JSON buffer"),
        (b"[]", "must be a JSON object, got an array"),
        (b"5", "must be a JSON object, got the number 5"),
        (b'{"a": 1} x', "failed to parse the request JSON buffer"),
        (b'{"a": "\xff"}', "failed to parse the request JSON buffer"),
        (b'{"a": ' + b"1" * 5000 + b"}", "failed to parse the request JSON buffer"),
        (b"[" * 100_000, "nesting depth"),
    ],
)
def test_what_is_no_object(body, words):
    assert words in fault_of(body)


def test_an_empty_body_is_an_empty_object():
    assert read(b"").inputs == {}


def test_values_are_counted_before_they_are_parsed():
    assert "more than 1000000 values" in fault_of(b'{"X": [' + b"1," * MAX_VALUES + b"1]}")
    assert "more than 1000000 values" in fault_of(b'{"X": [' + b"[]," * MAX_VALUES + b"[]]}")


def test_commas_in_text_are_no_values():
    text = ',[{\\"' * MAX_VALUES
    assert len(read(f'{{"p": "{text}"}}'.encode()).parameters["p"]) == 4 * MAX_VALUES


def test_what_a_body_becomes_is_limited_too():
    fault = fault_of({"X": [1] * 512, "Y": 1}, InputSpec("X", "FP64", (-1,)), InputSpec("Y", "INT8", (1,)))
    assert (
        "request size of 4096 bytes with input 'Y' of size 1 bytes exceeds the maximum allowed input size of 4096"
        in fault
    )


def test_parameters_are_counted():
    assert "more than 3 parameters" in fault_of({"a": 1, "b": 1, "parameters": {"c": 1, "d": 1}})


def test_an_input_without_a_datatype():
    assert "gives no datatype" in value_fault(1, "")
