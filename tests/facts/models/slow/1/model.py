"""Waits SECS seconds; a negative number is answered with an error, and one over 1000 raises."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "SECS").as_numpy()) for request in requests]

    @staticmethod
    def answer(secs):
        if secs[0] < 0:
            refusal = pb_utils.TritonError("negative secs", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse([], refusal)
        if secs[0] > 1000:
            raise RuntimeError("kaboom")
        time.sleep(float(secs[0]))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", secs)])
