"""Y is X, and TOLD says what came with it; the first number of X chooses an error: negative, over 100, over 1000."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


def told(request):
    return [
        [request.request_id(), request.correlation_id(), request.flags(), request.timeout()],
        json.loads(request.parameters() or "{}"),
        sorted(request.requested_output_names()),
        sorted(f"{tensor.name()} {list(tensor.shape())}" for tensor in request.inputs()),
    ]


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    @staticmethod
    def answer(request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        first = x.ravel()[0] if x.size else 0
        if first < 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("below", pb_utils.TritonError.UNAVAILABLE))
        if first > 1000:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("without a code"))
        if first > 100:
            raise ValueError("raised in a step")
        text = np.full((len(x), 1), json.dumps(told(request)), np.object_)
        outputs = [pb_utils.Tensor("TOLD", text), pb_utils.Tensor("Y", x)]
        asked = request.requested_output_names()
        return pb_utils.InferenceResponse([each for each in outputs if each.name() in asked])
