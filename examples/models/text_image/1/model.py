"""Scales and normalises an image for PP-OCR's detector."""

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils

# The detector halves an image five times.
SIDE_MULTIPLE = 32


class TritonPythonModel:
    def execute(self, requests):
        return [self._prepare(pb_utils.get_input_tensor_by_name(request, "IMAGE")) for request in requests]

    def _prepare(self, image):
        pixels = image.as_numpy()
        height, width = (max(SIDE_MULTIPLE, round(side / SIDE_MULTIPLE) * SIDE_MULTIPLE) for side in pixels.shape[:2])
        # The models were trained on the channel order that OpenCV reads: blue first.
        scaled = cv2.resize(pixels, (width, height))[:, :, ::-1].astype(np.float32) / 255
        planes = ((scaled - 0.5) / 0.5).transpose(2, 0, 1)[np.newaxis]
        return pb_utils.InferenceResponse([pb_utils.Tensor("DETECTION_INPUT", planes)])
