"""The arithmetic around PP-OCR's models: from pixels to their inputs, and from their outputs to boxes and text."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]

# The detector's own training settings: side lengths are multiples of 32; boxes are shrunk to 0.4 of their distance.
_SIDE_MULTIPLE = 32
_TEXT_PROBABILITY = 0.3
_UNCLIP_RATIO = 1.6
_LINE_HEIGHT = 48


def detection_input(pixels: Pixels) -> Floats:
    """RGB [height, width, 3] → normalised FP32 [1, 3, height', width'], sides rounded to what the detector takes."""
    height, width = (max(_SIDE_MULTIPLE, round(side / _SIDE_MULTIPLE) * _SIDE_MULTIPLE) for side in pixels.shape[:2])
    return _normalised(cv2.resize(pixels, (width, height)))[np.newaxis]


def text_boxes(probabilities: Floats, height: int, width: int) -> list[tuple[int, int, int, int]]:
    """The detector's map [height', width'] → upright boxes (left, top, right, bottom) in pixels, in reading order."""
    mask = (probabilities > _TEXT_PROBABILITY).astype(np.uint8)
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scale_y, scale_x = height / mask.shape[0], width / mask.shape[1]
    boxes = []
    for contour in contours:
        left, top, box_width, box_height = cv2.boundingRect(contour)
        if min(box_width, box_height) < 3:
            continue
        # The inverse of the shrinking: a distance in proportion to area over circumference.
        grow = box_width * box_height * _UNCLIP_RATIO / (2 * (box_width + box_height))
        boxes.append(
            (
                max(0, int((left - grow) * scale_x)),
                max(0, int((top - grow) * scale_y)),
                min(width, int((left + box_width + grow) * scale_x) + 1),
                min(height, int((top + box_height + grow) * scale_y) + 1),
            )
        )
    return sorted(boxes, key=lambda box: (round(box[1] / 20), box[0]))


def recognition_input(pixels: Pixels, box: tuple[int, int, int, int]) -> Floats:
    """The part of the image in `box` → FP32 [1, 3, 48, width]."""
    left, top, right, bottom = box
    crop = pixels[top:bottom, left:right]
    width = max(16, round(crop.shape[1] * _LINE_HEIGHT / crop.shape[0]))
    return _normalised(cv2.resize(crop, (width, _LINE_HEIGHT)))[np.newaxis]


def read_characters(probabilities: Floats, characters: Sequence[str]) -> str:
    """The recogniser's output [steps, characters] → text: the best of each step, repeats joined, blanks dropped."""
    best = probabilities.argmax(axis=1)
    kept = [index for step, index in enumerate(best) if index and (step == 0 or index != best[step - 1])]
    return "".join(characters[index] for index in kept)


def _normalised(pixels: Pixels) -> Floats:
    # The models were trained on the channel order that OpenCV reads: blue first.
    blue_first = pixels[:, :, ::-1].astype(np.float32) / 255
    return np.ascontiguousarray(((blue_first - 0.5) / 0.5).transpose(2, 0, 1))
