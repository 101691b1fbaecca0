"""INFO says what the model was given: its arguments, the request, and its tensors."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.args = {key: args[key] for key in args if key not in ("model_config", "model_repository")}
        self.helpers = {
            "input": pb_utils.get_input_config_by_name(self.config, "A"),
            "output": pb_utils.get_output_config_by_name(self.config, "INFO"),
            "absent": pb_utils.get_input_config_by_name(self.config, "C"),
            "decoupled": pb_utils.using_decoupled_model_transaction_policy(self.config),
            "types": [
                str(np.dtype(pb_utils.triton_string_to_numpy(name)))
                for name in ("TYPE_BOOL", "TYPE_INT32", "TYPE_FP16", "TYPE_FP64", "TYPE_STRING")
            ],
        }

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        asked = int(pb_utils.get_input_tensor_by_name(request, "A").as_numpy().ravel()[0])
        answers = [self.of_request(request), self.of_tensors(request), self.args, self.config, self.helpers]
        text = json.dumps(answers[asked], sort_keys=True)
        return pb_utils.InferenceResponse([pb_utils.Tensor("INFO", np.array([[text]], np.object_))])

    @staticmethod
    def of_request(request):
        return {
            "id": request.request_id(),
            "correlation_id": request.correlation_id(),
            "flags": request.flags(),
            "timeout": request.timeout(),
            "outputs": sorted(request.requested_output_names()),
            "parameters": json.loads(request.parameters() or "{}"),
            "cancelled": request.is_cancelled(),
        }

    @staticmethod
    def of_tensors(request):
        return [
            [tensor.name(), list(tensor.shape()), str(tensor.as_numpy().dtype), tensor.is_cpu()]
            for tensor in request.inputs()
        ]
