"""From the detector's map of probabilities to images of lines of text."""

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils

# The detector's own training settings: boxes are shrunk to 0.4 of their distance.
TEXT_PROBABILITY = 0.3
UNCLIP_RATIO = 1.6
LINE_HEIGHT = 48
# Lines of few different widths meet in one batch of the recogniser more often.
WIDTH_STEP = 160


class TritonPythonModel:
    def execute(self, requests):
        return [self._cut(request) for request in requests]

    def _cut(self, request):
        probabilities = pb_utils.get_input_tensor_by_name(request, "PROBABILITIES").as_numpy()[0, 0]
        pixels = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
        places = find_places(probabilities, *pixels.shape[:2])
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("BOXES", cut_lines(pixels, places)),
                pb_utils.Tensor("PLACES", np.array(places, np.int32).reshape(-1, 4)),
            ]
        )


def find_places(probabilities, height, width):
    """Upright boxes (left, top, right, bottom) in pixels, in reading order."""
    mask = (probabilities > TEXT_PROBABILITY).astype(np.uint8)
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scale_y, scale_x = height / mask.shape[0], width / mask.shape[1]
    places = []
    for contour in contours:
        left, top, box_width, box_height = cv2.boundingRect(contour)
        if min(box_width, box_height) < 3:
            continue
        # The inverse of the shrinking: a distance in proportion to area over circumference.
        grow = box_width * box_height * UNCLIP_RATIO / (2 * (box_width + box_height))
        places.append(
            (
                max(0, int((left - grow) * scale_x)),
                max(0, int((top - grow) * scale_y)),
                min(width, int((left + box_width + grow) * scale_x) + 1),
                min(height, int((top + box_height + grow) * scale_y) + 1),
            )
        )
    return sorted(places, key=lambda place: (round(place[1] / 20), place[0]))


def cut_lines(pixels, places):
    """FP32 [places, 3, 48, width], normalised; the width of the longest, rounded up."""
    lines = [scaled_line(pixels[top:bottom, left:right]) for left, top, right, bottom in places]
    longest = max((line.shape[1] for line in lines), default=0)
    width = max(1, -(-longest // WIDTH_STEP)) * WIDTH_STEP
    padded = np.zeros((len(lines), 3, LINE_HEIGHT, width), np.float32)
    for row, line in zip(padded, lines, strict=True):
        # Blue first, as the detector.
        row[:, :, : line.shape[1]] = ((line[:, :, ::-1].astype(np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)
    return padded


def scaled_line(pixels):
    width = max(16, round(pixels.shape[1] * LINE_HEIGHT / pixels.shape[0]))
    return cv2.resize(pixels, (width, LINE_HEIGHT))
