"""Answers with an error of the code that is asked for."""

import triton_python_backend_utils as pb_utils

CODES = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"]


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    @staticmethod
    def answer(request):
        number = int(pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy()[0])
        if number < 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("without a code"))
        code = getattr(pb_utils.TritonError, CODES[number])
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"code {CODES[number]}", code))
