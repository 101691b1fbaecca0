"""Missing, surplus and optional inputs through every door: what runs, and what the refusal names."""

import json

import numpy as np
import pytest

from tests.every_door.doors import RefusedError
from tests.models.repository import write_python_model

# Answers with the names of the inputs that came.
TELLS = """
    import json
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            names = [[tensor.name() for tensor in request.inputs()] for request in requests]
            said = [np.array([[json.dumps(each).encode()]], np.object_) for each in names]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", each)]) for each in said]
"""


def lay_out(repository):
    for name, required, optional in (("three", 3, 0), ("four", 3, 1), ("free", 0, 2)):
        for form in ("isolated", "inline"):
            flags = ["false"] * required + ["true"] * optional
            inputs = ", ".join(
                f'{{ name: "INPUT{index}" data_type: TYPE_FP32 dims: [ 1 ] optional: {flag} }}'
                for index, flag in enumerate(flags)
            )
            config = f"""
                max_batch_size: 4
                input [ {inputs} ]
                output [ {{ name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] }} ]
                dynamic_batching {{ }}
                parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
            """
            write_python_model(repository, f"{name}_{form}", config, TELLS)


@pytest.fixture(params=["isolated", "inline"])
def form(request):
    return request.param


def given(*numbers):
    return {f"INPUT{number}": np.ones((1, 1), np.float32) for number in numbers}


def seen(door, model, *numbers):
    return json.loads(door.infer(model, given(*numbers))["SEEN"][0, 0])


REQUIRED = "['INPUT0','INPUT1','INPUT2']"


@pytest.mark.parametrize(
    ("model", "numbers", "said"),
    [
        (
            "three",
            (),
            "expected 3 inputs but got 0 inputs for model '{0}'. Got input(s) [], but missing required input(s) "
            f"{REQUIRED}. Please provide all required input(s).",
        ),
        ("three", (0,), "Got input(s) ['INPUT0'], but missing required input(s) ['INPUT1','INPUT2']"),
        ("four", (0,), "expected number of inputs between 3 and 4 but got 1 inputs for model '{0}'"),
        ("four", (3,), f"Got input(s) ['INPUT3'], but missing required input(s) {REQUIRED}"),
        ("four", (0, 1, 2, 3, 4), "'INPUT4'"),
        ("free", (0, 1, 2), "'INPUT2'"),
    ],
)
def test_what_is_missing_or_too_much_is_named(door, form, model, numbers, said):
    name = f"{model}_{form}"
    with pytest.raises(RefusedError) as refused:
        door.infer(name, given(*numbers))
    assert refused.value.code == "INVALID_ARGUMENT"
    assert said.format(name) in str(refused.value)
    assert seen(door, f"three_{form}", 0, 1, 2) == ["INPUT0", "INPUT1", "INPUT2"]


def test_optional_inputs_may_come_or_not(door, form):
    assert seen(door, f"four_{form}", 0, 1, 2) == ["INPUT0", "INPUT1", "INPUT2"]
    assert seen(door, f"four_{form}", 0, 1, 2, 3) == ["INPUT0", "INPUT1", "INPUT2", "INPUT3"]
    assert seen(door, f"free_{form}", 1) == ["INPUT1"]


def test_a_model_whose_inputs_are_all_optional_runs_without_any(door, form):
    assert seen(door, f"free_{form}") == []


def test_the_order_of_a_request_does_not_matter(door, form):
    assert sorted(seen(door, f"four_{form}", 3, 2, 1, 0)) == ["INPUT0", "INPUT1", "INPUT2", "INPUT3"]
