"""What a Python model offers and nobody asks for yet is told, by a look at the model and by its load."""

import pytest

CODE = """
    class TritonPythonModel:
        {method}
            return False

        def execute(self, requests):
            return [pb_utils.InferenceResponse([]) for _ in requests]
"""


@pytest.mark.parametrize("method", ["def is_ready(self):", "async def is_ready(self):"])
def test_is_ready_is_not_called(workshop, method):
    code = CODE.format(method=method)
    served = workshop.serve(code, outputs="")
    (warning,) = [line for line in workshop.log.messages if "is_ready" in line]
    assert warning.startswith("model 'm': ")
    assert "m/1/model.py:" in warning
    (finding,) = [each for each in workshop.backend.inspect(served.context).findings if "is_ready" in each.message]
    assert finding.message in warning


def test_nothing_is_told_of_other_methods(workshop):
    served = workshop.serve(CODE.format(method="def is_steady(self):"), outputs="")
    assert not [line for line in workshop.log.messages if "is_" in line]
    assert not [each for each in workshop.backend.inspect(served.context).findings if "is_" in each.message]
