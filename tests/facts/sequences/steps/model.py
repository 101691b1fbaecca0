"""A request comes back X times; the answer has what each turn saw."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils

RESCHEDULE = pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE


def seen(request):
    tensors = sorted(request.inputs(), key=lambda tensor: tensor.name())
    inputs = [f"{each.name()} {each.as_numpy().tolist()}" for each in tensors]
    return [request.correlation_id(), request.flags(), *inputs]


class TritonPythonModel:
    def initialize(self, args):
        self.turns = {}

    def execute(self, requests):
        return [self.turn(request) for request in requests]

    def turn(self, request):
        turns = self.turns.setdefault(request.correlation_id(), [])
        turns.append(seen(request))
        if len(turns) <= int(pb_utils.get_input_tensor_by_name(request, "X").as_numpy().ravel()[0]):
            request.set_release_flags(RESCHEDULE)
            return None
        text = json.dumps(self.turns.pop(request.correlation_id()))
        return pb_utils.InferenceResponse([pb_utils.Tensor("SEEN", np.array([[text]], np.object_))])
