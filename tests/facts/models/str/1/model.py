"""TEXT_OUT is TEXT."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "TEXT")) for request in requests]

    @staticmethod
    def answer(tensor):
        return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT_OUT", tensor.as_numpy())])
