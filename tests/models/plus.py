"""A Python model that tells by its answers which one it is: it adds a number to its input."""

from tests.models.repository import write_python_model

PLUS = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array + {plus})]) for array in arrays]
"""


def write_plus(repository, config, plus, name="m"):
    """Version 1 of it in the repository; from FP32 `IN` to `OUT`, whose shapes are those of `config`."""
    write_python_model(repository, name, config, PLUS.format(plus=plus))
