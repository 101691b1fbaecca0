"""OUTPUT0 is the sum and OUTPUT1 the difference of the inputs."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    @staticmethod
    def answer(request):
        left, right = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("INPUT0", "INPUT1"))
        asked = {"OUTPUT0": left + right, "OUTPUT1": left - right}
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, array) for name, array in asked.items() if name in request.requested_output_names()]
        )
