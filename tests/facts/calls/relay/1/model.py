"""Calls a decoupled model with the number in CALL, and sends its responses on, one by one."""

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.relay(
                int(pb_utils.get_input_tensor_by_name(request, "CALL").as_numpy()[0]), request.get_response_sender()
            )

    @staticmethod
    def relay(count, sender):
        inputs = [pb_utils.Tensor("N", np.array([count], np.int32))]
        call = pb_utils.InferenceRequest(model_name="decoup", requested_output_names=["OUT"], inputs=inputs)
        for response in call.exec(decoupled=True):
            if response.has_error():
                sender.send(pb_utils.InferenceResponse(error=response.error()))
            elif response.output_tensors():
                number = str(response.output_tensors()[0].as_numpy()[0])
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("SAID", np.array([number], np.object_))]))
        sender.send(flags=FINAL)
