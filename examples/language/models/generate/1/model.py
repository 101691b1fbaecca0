"""Generates text, by calls of the ONNX model `tiny_lm`. Many requests are under way at once: it batches their steps."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils

from .text import END, Table, window

MAX_TOKENS = 32


class TritonPythonModel:
    def initialize(self, args):
        self._table = Table(pb_utils.get_model_dir())

    async def execute(self, requests):
        await asyncio.gather(*(self._generate(request) for request in requests))

    async def _generate(self, request):
        sender = request.get_response_sender()
        tokens = self._table.tokens(pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0])
        most = pb_utils.get_input_tensor_by_name(request, "max_tokens")
        for _ in range(MAX_TOKENS if most is None else int(most.as_numpy()[0])):
            if sender.is_cancelled():
                break
            response = await step(tokens)
            if response.has_error():
                sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                return
            logits = pb_utils.get_output_tensor_by_name(response, "logits").as_numpy()
            tokens.append(int(logits[0].argmax()))
            if tokens[-1] == END:
                break
            piece = np.array([self._table.pieces[tokens[-1]]], np.object_)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", piece)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


async def step(tokens):
    call = pb_utils.InferenceRequest(
        model_name="tiny_lm",
        inputs=[pb_utils.Tensor("tokens", np.array([window(tokens)], np.int64))],
        requested_output_names=["logits"],
    )
    return await call.async_exec()
