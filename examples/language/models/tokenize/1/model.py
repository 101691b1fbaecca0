"""Text to tokens."""

import numpy as np
import triton_python_backend_utils as pb_utils

from .text import Table


class TritonPythonModel:
    def initialize(self, args):
        self._table = Table(pb_utils.get_model_dir())

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0]
        tokens = np.array(self._table.tokens(text), np.int64)
        return pb_utils.InferenceResponse([pb_utils.Tensor("tokens", tokens)])
