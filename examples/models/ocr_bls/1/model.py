"""Optical character recognition: a loop over lines of text, and a branch on what each looks like."""

import asyncio

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils

CLASSIFIER_WIDTH = 192
# Of 180 degrees: below it a line is read as it is.
TURN_PROBABILITY = 0.9


class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*(self._answer(request) for request in requests))

    async def _answer(self, request):
        try:
            return pb_utils.InferenceResponse(await self._read_image(request.inputs()[0]))
        except CallFailed as failed:
            return pb_utils.InferenceResponse(error=failed.error)

    async def _read_image(self, raw_image):
        file = pb_utils.Tensor("IMAGE_IN", raw_image.as_numpy())
        (image,) = await call("preprocess", [file], ["IMAGE_OUT"])
        pixels = pb_utils.Tensor("IMAGE", image)
        boxes, places = await call("detector", [pixels], ["BOXES", "PLACES"])
        lines = await asyncio.gather(*(self._read_line(box) for box in boxes))
        return [
            pb_utils.Tensor("TEXT", np.array([text for text, _ in lines], np.object_)),
            pb_utils.Tensor("PLACES", places),
            pb_utils.Tensor("TURNED", np.array([turned for _, turned in lines], np.bool_)),
        ]

    async def _read_line(self, line):
        """(text, whether the line was turned round first)."""
        width = written_width(line)
        upright = cv2.resize(line[:, :, :width].transpose(1, 2, 0), (CLASSIFIER_WIDTH, line.shape[1]))
        small = pb_utils.Tensor("x", np.ascontiguousarray(upright.transpose(2, 0, 1))[np.newaxis])
        (directions,) = await call("text_direction", [small], ["save_infer_model/scale_0.tmp_1"])
        turned = bool(directions[0, 1] > TURN_PROBABILITY)
        if turned:
            line = line.copy()
            line[:, :, :width] = line[:, ::-1, :width][:, :, ::-1]
        box = pb_utils.Tensor("BOXES", line[np.newaxis])
        (texts,) = await call("recognizer", [box], ["TEXT_OUT"])
        return texts[0].decode(), turned


def written_width(line):
    """Without the padding at the right, which is 0 in all channels and rows."""
    columns = np.flatnonzero(line.any(axis=(0, 1)))
    return int(columns[-1]) + 1 if columns.size else line.shape[2]


class CallFailed(Exception):
    def __init__(self, error):
        super().__init__(error.message())
        self.error = error


async def call(model, inputs, outputs):
    """The outputs of another model as arrays."""
    request = pb_utils.InferenceRequest(model_name=model, inputs=inputs, requested_output_names=outputs)
    response = await request.async_exec()
    if response.has_error():
        raise CallFailed(response.error())
    return [pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs]
