"""Wrong requests through every door: the code, what the message names, and that the server goes on."""

import numpy as np
import pytest

from tests.every_door.doors import RefusedError
from tests.models import onnx_models
from tests.models.repository import write_config


def lay_out(repository):
    onnx_models.save(onnx_models.add_sub("INT32"), repository, "add_sub")
    write_config(repository, "add_sub", "max_batch_size: 4")


def ints(*shape):
    return np.ones(shape, np.int32)


GOOD = {"INPUT0": ints(1, 16), "INPUT1": ints(1, 16)}


@pytest.mark.parametrize(
    ("inputs", "options", "code", "said"),
    [
        ({}, {}, "INVALID_ARGUMENT", "expected 2 inputs but got 0 inputs for model 'add_sub'"),
        ({"INPUT0": ints(1, 16)}, {}, "INVALID_ARGUMENT", "missing required input(s) ['INPUT1']"),
        (
            GOOD | {"INPUT2": ints(1, 16)},
            {},
            "INVALID_ARGUMENT",
            "unexpected inference input 'INPUT2' for model 'add_sub'",
        ),
        (GOOD | {"INPUT1": np.ones((1, 16), np.float32)}, {}, "INVALID_ARGUMENT", "data-type is 'FP32'"),
        (
            GOOD | {"INPUT1": ints(1, 17)},
            {},
            "INVALID_ARGUMENT",
            "unexpected shape for input 'INPUT1' for model 'add_sub'",
        ),
        ({"INPUT0": ints(16), "INPUT1": ints(16)}, {}, "INVALID_ARGUMENT", "Expected [-1,16], got [16]"),
        (
            {"INPUT0": ints(5, 16), "INPUT1": ints(5, 16)},
            {},
            "INVALID_ARGUMENT",
            "batch-size must be <= 4 for 'add_sub'",
        ),
        (GOOD, {"outputs": ["NOPE"]}, "INVALID_ARGUMENT", "unexpected inference output 'NOPE' for model 'add_sub'"),
        (GOOD, {"version": "7"}, "NOT_FOUND", "'add_sub' version 7"),
    ],
)
def test_a_wrong_request_is_refused_and_the_next_is_answered(door, inputs, options, code, said):
    with pytest.raises(RefusedError) as refused:
        door.infer("add_sub", inputs, **options)
    assert refused.value.code == code
    assert said in str(refused.value)
    assert door.infer("add_sub", GOOD)["OUTPUT0"].tolist() == [[2] * 16]


def test_an_unknown_model_is_not_found(door):
    with pytest.raises(RefusedError, match="unknown model: 'nope'") as refused:
        door.infer("nope", GOOD)
    assert refused.value.code == "NOT_FOUND"
