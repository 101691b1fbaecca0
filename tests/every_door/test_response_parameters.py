"""Parameters of requests and of answers: a model gets what was sent, and what it sends beside its outputs arrives, with
its type. Nothing of a request comes back by itself."""

import numpy as np
import pytest

from tests.models.repository import write_python_model

CODE = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            answers = []
            for request in requests:
                tensor = pb_utils.get_input_tensor_by_name(request, "IN")
                told = json.loads(request.parameters())
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor.as_numpy())], **given(told)))
            return answers
"""
GIVEN = """
    import json

    def given(told):
        return {"parameters": told} if told.pop("back", False) else {}
"""
PARAMETERS = {
    "text": "größer",
    "empty": "",
    "whole": 42,
    "least": -(2**63),
    "most": 2**63 - 1,
    "yes": True,
    "no": False,
    "half": 0.5,
    "tiny": 5e-324,
    "third": 1 / 3,
}


def lay_out(repository):
    for form in ("isolated", "inline"):
        config = f"""
            max_batch_size: 4 dynamic_batching {{ }}
            input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }} ]
            output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }} ]
            parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
        """
        write_python_model(repository, form, config, GIVEN + CODE)


@pytest.mark.parametrize("form", ["isolated", "inline"])
def test_what_a_model_sends_beside_its_outputs_arrives(door, form):
    answer = door.infer(form, {"IN": np.ones((1, 2), np.float32)}, parameters={**PARAMETERS, "back": True})
    assert answer.parameters == PARAMETERS
    for key, value in PARAMETERS.items():
        assert type(answer.parameters[key]) is type(value), key
    assert answer["OUT"].tolist() == [[1, 1]]


@pytest.mark.parametrize("form", ["isolated", "inline"])
def test_nothing_comes_back_by_itself(door, form):
    answer = door.infer(form, {"IN": np.ones((1, 2), np.float32)}, parameters=PARAMETERS, id="seven")
    assert answer.parameters == {}
    assert answer.id == "seven"
