"""W2: the first Python model of the guides, unchanged in both forms of execution."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from tests.models.repository import write_python_model

MODEL = """
    import json

    import triton_python_backend_utils as pb_utils


    class TritonPythonModel:
        def initialize(self, args):
            self.model_config = json.loads(args["model_config"])

        def execute(self, requests):
            responses = []
            for request in requests:
                tensor = pb_utils.get_input_tensor_by_name(request, "input")
                result = tensor.as_numpy() * 2
                output = pb_utils.Tensor("output", result.astype("float32"))
                responses.append(pb_utils.InferenceResponse(output_tensors=[output]))
            return responses

        def finalize(self):
            print("bye")
"""
CONFIG = """
    max_batch_size: %d
    input [ { name: "input" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "output" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'


@pytest.mark.parametrize("form", ["", INLINE], ids=["isolated", "inline"])
@pytest.mark.parametrize("module", [httpclient, grpcclient], ids=["http", "grpc"])
def test_it_doubles(repository, embedded, form, module):
    write_python_model(repository, "my_python", CONFIG % 0 + form, MODEL)
    write_python_model(repository, "batching", CONFIG % 8 + form, MODEL)
    server = embedded()
    port = server.ports["http" if module is httpclient else "grpc"]
    with module.InferenceServerClient(f"localhost:{port}") as client:
        for model, shape in (("my_python", (4,)), ("batching", (3, 4))):
            array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            tensor = module.InferInput("input", list(shape), "FP32")
            tensor.set_data_from_numpy(array)
            result = client.infer(model, [tensor]).as_numpy("output")
            np.testing.assert_array_equal(result, array * 2)
            assert result.dtype == np.float32


def test_the_command_line_chooses_the_form_for_all_models(repository, serve):
    write_python_model(repository, "my_python", CONFIG % 0, MODEL)
    server = serve(f"--model-repository={repository}", "--backend-config=python,execution=inline").started()
    body = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [2], "data": [1, 2]}]}
    assert server.ask("POST", "/v2/models/my_python/infer", body).json()["outputs"][0]["data"] == [2.0, 4.0]
    server.signal()
    assert server.exit_code() == 0
