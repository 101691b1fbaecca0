"""Reads lines of text, by calls of the ONNX model `text_recognition`."""

import asyncio
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        # What the recogniser's outputs stand for: index 0 is "no character".
        self._characters = Path(pb_utils.get_model_dir(), "characters.txt").read_text().split("\n")

    async def execute(self, requests):
        return await asyncio.gather(*(self._answer(request) for request in requests))

    async def _answer(self, request):
        lines = pb_utils.get_input_tensor_by_name(request, "BOXES").as_numpy()
        try:
            texts = await asyncio.gather(*(self._read(line) for line in lines))
        except pb_utils.TritonModelException as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT_OUT", np.array(texts, np.object_))])

    async def _read(self, line):
        """One line a call: the recogniser joins those that wait, of this request and of others."""
        call = pb_utils.InferenceRequest(
            model_name="text_recognition",
            requested_output_names=["fetch_name_0"],
            inputs=[pb_utils.Tensor("x", line[np.newaxis])],
        )
        response = await call.async_exec()
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return self._spell(pb_utils.get_output_tensor_by_name(response, "fetch_name_0").as_numpy()[0])

    def _spell(self, probabilities):
        """The best character of each step, repeats joined, blanks dropped."""
        best = probabilities.argmax(axis=1)
        kept = [index for step, index in enumerate(best) if index and (step == 0 or index != best[step - 1])]
        return "".join(self._characters[index] for index in kept)
