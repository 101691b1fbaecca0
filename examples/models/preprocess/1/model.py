"""Decodes an image file with Pillow."""

import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image, UnidentifiedImageError


class TritonPythonModel:
    def execute(self, requests):
        return [self._decode(request) for request in requests]

    def _decode(self, request):
        data = pb_utils.get_input_tensor_by_name(request, "IMAGE_IN").as_numpy()
        try:
            image = Image.open(io.BytesIO(data.tobytes())).convert("RGB")
        except Exception as error:
            # Pillow's own words name the object in memory.
            why = f"its {data.size} bytes are of no format that Pillow knows"
            wrong = pb_utils.TritonError(
                f"IMAGE_IN is no image that can be read: {why if isinstance(error, UnidentifiedImageError) else error}",
                pb_utils.TritonError.INVALID_ARG,
            )
            return pb_utils.InferenceResponse(output_tensors=[], error=wrong)
        return pb_utils.InferenceResponse([pb_utils.Tensor("IMAGE_OUT", np.asarray(image, np.uint8))])
