"""Tokens to pieces of text."""

import numpy as np
import triton_python_backend_utils as pb_utils

from .text import Table


class TritonPythonModel:
    def initialize(self, args):
        self._table = Table(pb_utils.get_model_dir())

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        token = pb_utils.get_input_tensor_by_name(request, "token").as_numpy()[0]
        piece = np.array([self._table.pieces[token]], np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", piece)])
