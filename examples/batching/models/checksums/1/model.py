import zlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self._sums(request)]) for request in requests]

    def _sums(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "FILE").as_numpy()
        sums = [zlib.crc32(file) for file in files.ravel()]
        return pb_utils.Tensor("CRC32", np.array(sums, np.uint32).reshape(-1, 1))
