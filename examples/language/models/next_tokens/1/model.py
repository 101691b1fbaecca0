"""Generates tokens, by calls of the ONNX model `tiny_lm`. It batches the steps of the requests under way."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils

from .text import END, window


class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.gather(*(generate(request) for request in requests))


async def generate(request):
    sender = request.get_response_sender()
    tokens = pb_utils.get_input_tensor_by_name(request, "tokens").as_numpy().tolist()
    most = int(pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy()[0])
    for _ in range(most):
        if sender.is_cancelled():
            break
        try:
            tokens.append(await next_token(tokens))
        except pb_utils.TritonModelException as error:
            failure = pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
            sender.send(failure, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return
        if tokens[-1] == END:
            break
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("token", np.array(tokens[-1:], np.int64))]))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


async def next_token(tokens):
    call = pb_utils.InferenceRequest(
        model_name="tiny_lm",
        inputs=[pb_utils.Tensor("tokens", np.array([window(tokens)], np.int64))],
        requested_output_names=["logits"],
    )
    response = await call.async_exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return int(pb_utils.get_output_tensor_by_name(response, "logits").as_numpy()[0].argmax())
