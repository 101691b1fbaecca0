"""N responses for a request; -1 is answered with an error, 99 raises, 77 is answered twice and then with an error."""

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.answer(request, int(pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0]))

    def answer(self, request, count):
        if count == 99:
            raise RuntimeError("boom in execute")
        sender = request.get_response_sender()
        if count < 0:
            sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError("neg n")), FINAL)
            return
        for number in range(2 if count == 77 else count):
            tensor = pb_utils.Tensor("OUT", np.array([number], np.int32))
            sender.send(pb_utils.InferenceResponse([tensor]))
        if count == 77:
            sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError("mid stream err")))
        sender.send(flags=FINAL)
