"""From a file to the input of Magika's classifier."""

import numpy as np
from numpy.typing import NDArray

_PART_BYTES = 1024
_READ_BYTES = 4096
_PADDING = 256


def file_type_input(content: bytes) -> NDArray[np.int32]:
    """INT32 [1, 2048]: the first and the last bytes without surrounding white space, padded with 256."""
    first = content[:_READ_BYTES].lstrip()[:_PART_BYTES]
    last = content[-_READ_BYTES:].rstrip()[-_PART_BYTES:]
    row = np.full(2 * _PART_BYTES, _PADDING, np.int32)
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[2 * _PART_BYTES - len(last) :] = np.frombuffer(last, np.uint8)
    return row[np.newaxis]
