"""As many responses as X says, each with what the model sees; -1 is answered with an error."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def seen(request):
    tensors = sorted(request.inputs(), key=lambda tensor: tensor.name())
    inputs = [f"{each.name()} {each.as_numpy().tolist()}" for each in tensors]
    return [request.correlation_id(), request.flags(), *inputs]


class TritonPythonModel:
    def execute(self, requests):
        batch = [seen(request) for request in requests]
        for request in requests:
            if pb_utils.get_input_tensor_by_name(request, "READY").as_numpy().any():
                self.answer(request.get_response_sender(), self.count(request), batch)
            else:
                request.get_response_sender().send(flags=FINAL)

    @staticmethod
    def count(request):
        return int(pb_utils.get_input_tensor_by_name(request, "X").as_numpy().ravel()[0])

    @staticmethod
    def answer(sender, count, batch):
        if count < 0:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("below zero")), FINAL)
            return
        for number in range(count):
            text = np.array([[json.dumps([number, *batch])]], np.object_)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", text)]))
        sender.send(flags=FINAL)
