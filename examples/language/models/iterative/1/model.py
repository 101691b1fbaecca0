"""Generates text, one token an execution: requests that are not done are scheduled again."""

import numpy as np
import triton_python_backend_utils as pb_utils

from .text import END, Table, window


class TritonPythonModel:
    def initialize(self, args):
        self._table = Table(pb_utils.get_model_dir())
        self._tokens = {}
        self._left = {}

    def execute(self, requests):
        keys = [self._admit(request) for request in requests]
        windows = np.array([window(self._tokens[key]) for key in keys], np.int64)
        call = pb_utils.InferenceRequest(
            model_name="tiny_lm", inputs=[pb_utils.Tensor("tokens", windows)], requested_output_names=["logits"]
        )
        response = call.exec()
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        tokens = pb_utils.get_output_tensor_by_name(response, "logits").as_numpy().argmax(axis=1)
        for request, key, token in zip(requests, keys, tokens, strict=True):
            self._answer(request, key, int(token))

    def sequence_ended(self, correlation_id, reason):
        """A request was cancelled, or its client has gone."""
        self._forget(correlation_id)

    def _admit(self, request):
        key, start = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy().item() for name in ("CORRID", "START")
        )
        if start:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().item()
            self._tokens[key] = self._table.tokens(text)
            self._left[key] = int(pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy().item())
        return key

    def _answer(self, request, key, token):
        sender = request.get_response_sender()
        self._tokens[key].append(token)
        self._left[key] -= 1
        if token != END and self._left[key] >= 0:
            piece = np.array([[self._table.pieces[token]]], np.object_)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", piece)]))
        if token == END or self._left[key] <= 0:
            self._forget(key)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        else:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)

    def _forget(self, key):
        self._tokens.pop(key, None)
        self._left.pop(key, None)
