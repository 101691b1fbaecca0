"""Each input that is given comes back as the output of its name."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    @staticmethod
    def answer(request):
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(tensor.name() + "_OUT", tensor.as_numpy()) for tensor in request.inputs()]
        )
