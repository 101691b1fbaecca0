"""`c_python_backend_utils`, the internal module that some models import."""

import numpy as np

MODEL = """
import c_python_backend_utils as c_utils

class TritonPythonModel:
    def execute(self, requests):
        free = np.array([c_utils.shared_memory.free_memory()], np.int64)
        large = c_utils.Tensor("Z", np.zeros(100_000, np.float32))
        return [c_utils.InferenceResponse([pb_utils.Tensor("Y", free), large]) for _ in requests]
"""
X = {"X": np.zeros(1, np.float32)}
OUTPUTS = "Y:TYPE_INT64:1 Z:TYPE_FP32:-1"


def test_it_has_the_same_classes_and_counts_free_memory(serve):
    served = serve(MODEL, outputs=OUTPUTS)
    free = [int(served.call(**X)["Y"][0]) for _ in range(4)]
    assert free[0] == 0  # nothing is placed yet
    assert free[2] == free[3]  # what a request took has come back


def test_a_new_process_starts_with_as_much_as_the_first(workshop):
    found = []
    for name in ("first", "second"):
        served = workshop.serve(MODEL, name=name, outputs=OUTPUTS)
        found.append([int(served.call(**X)["Y"][0]) for _ in range(3)])
    assert found[0] == found[1]
    assert found[0][2] > 0
