"""Y is twice X; 2 is answered with an error."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "X").as_numpy()) for request in requests]

    @staticmethod
    def answer(x):
        if x[0] == 2:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("not 2", pb_utils.TritonError.INVALID_ARG))
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", (x * 2).astype(np.int32))])
