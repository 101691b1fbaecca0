"""Does one of the things that a model should not do, by KIND."""

import numpy as np
import triton_python_backend_utils as pb_utils


def tensor(name, values, datatype):
    return pb_utils.Tensor(name, np.array(values, datatype))


class TritonPythonModel:
    def execute(self, requests):
        kind = int(pb_utils.get_input_tensor_by_name(requests[0], "KIND").as_numpy()[0])
        return getattr(self, f"kind_{kind}")()

    def kind_0(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2], np.int32)])]

    def kind_1(self):
        return None

    def kind_2(self):
        return []

    def kind_3(self):
        return [self.kind_0()[0]] * 2

    def kind_4(self):
        return [None]

    def kind_5(self):
        return ["text"]

    def kind_6(self):
        return [pb_utils.InferenceResponse([])]

    def kind_7(self):
        return [pb_utils.InferenceResponse([tensor("NOPE", [1, 2], np.int32)])]

    def kind_8(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2, 3], np.int32)])]

    def kind_9(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2], np.int64)])]

    def kind_10(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [[1, 2]], np.int32)])]

    def kind_11(self):
        return [pb_utils.InferenceResponse([tensor("MORE", ["a", b"\xff", ""], np.object_)])]

    def kind_12(self):
        raise ValueError("a message")

    def kind_13(self):
        raise pb_utils.TritonModelException("an exception of the backend")

    def kind_14(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2], np.int32)], pb_utils.TritonError("both"))]

    def kind_15(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2], np.int32), tensor("MORE", [], np.object_)])]

    def kind_16(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2], np.complex64)])]

    def kind_17(self):
        return self.kind_0()[0]

    def kind_18(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [[1, 2], [3, 4]], np.int32)[:, 0]])]

    def kind_19(self):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.arange(4, dtype=np.int32)[::2])])]

    def kind_20(self):
        return [pb_utils.InferenceResponse([tensor("MORE", ["é"], np.str_)])]

    def kind_21(self):
        return [pb_utils.InferenceResponse([tensor("OUT", [1, 2], ">i4")])]
