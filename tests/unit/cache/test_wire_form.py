"""Cached responses as bytes and back; whatever else a store holds is no response."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from charonia.cache.response import CachedResponse
from charonia.cache.wire_form import decoded, encoded
from charonia.core.tensor import Tensor


def response(parameters=None):
    arrays = {
        "A": np.arange(6, dtype=np.float32).reshape(2, 3),
        "B": np.array([[b"x", b"long"]], np.object_),
        "empty": np.zeros((0, 4), np.int64),
    }
    tensors = [Tensor.from_numpy(name, array).copied() for name, array in arrays.items()]
    return CachedResponse(tensors, parameters or {})


def facts(found):
    return [(each.name, each.datatype, each.shape, bytes(each.buffer.host())) for each in found.outputs], dict(
        found.parameters
    )


def test_there_and_back():
    kept = response({"i": 1, "f": 1.5, "b": True, "s": "ä"})
    assert facts(decoded(encoded(kept))) == facts(kept)


def head(**changes):
    fields = {"outputs": [["A", "FP32", [1], 4]], "parameters": {}} | changes
    raw = json.dumps(fields).encode()
    return struct.pack("<I", len(raw)) + raw + b"\0\0\0\0"


WRONG = {
    "nothing": b"",
    "a short length": b"\1",
    "a length beyond the end": b"\xff\xff\xff\xff{}",
    "no JSON": struct.pack("<I", 2) + b"xx",
    "a list": struct.pack("<I", 2) + b"[]",
    "too short a tensor": head()[:-1],
    "too long a tensor": head() + b"\0",
    "a negative size": head(outputs=[["A", "FP32", [1], -4]]),
    "a negative dimension": head(outputs=[["A", "FP32", [-1], 4]]),
    "a shape of another size": head(outputs=[["A", "FP32", [2], 4]]),
    "an unknown datatype": head(outputs=[["A", "FP31", [1], 4]]),
    "a size that is text": head(outputs=[["A", "FP32", [1], "4"]]),
    "texts whose lengths don't add up": head(outputs=[["A", "BYTES", [2], 4]]),
    "a dimension that no tensor has": head(outputs=[["A", "FP32", [0, 2**63], 0]])[:-4],
    "a name that is half a character": head(outputs=[["\ud800", "FP32", [1], 4]]),
    "a parameter that is half a character": head(parameters={"a": "\ud800"}),
    "a parameter beyond 64 bits": head(parameters={"a": 2**64}),
    "a parameter that is none": head(parameters={"a": [1]}),
    "parameters that are none": head(parameters=[]),
}


def test_the_right_head_is_right():
    assert decoded(head()) is not None


def test_numbers_of_64_bits_are_parameters():
    assert decoded(head(parameters={"a": 2**64 - 1, "b": -(2**63)})).parameters == {"a": 2**64 - 1, "b": -(2**63)}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_what_is_no_response(data):
    assert decoded(data) is None


@given(st.binary(max_size=200), st.integers(0, 10**6))
def test_any_bytes(noise, at):
    good = bytearray(encoded(response({"p": 1})))
    place = at % len(good)
    good[place : place + len(noise)] = noise
    for data in (noise, bytes(good)):
        found = decoded(data)
        if found is not None:
            for tensor in found.outputs:
                assert tensor.buffer.nbytes == len(tensor.buffer.host())
