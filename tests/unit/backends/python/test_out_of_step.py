"""A process whose answers are not those to what it was sent any more: it is ended, and its answers are not used."""

import numpy as np
import pytest

from charonia.backends.python.host import _Life
from charonia.core.errors import BackendError

X = {"X": np.zeros(1, np.float32)}
CODE = """
class TritonPythonModel:
    def execute(self, requests):
        if requests[0].request_id() == "call":
            pb_utils.InferenceRequest(model_name="other", requested_output_names=["Y"], inputs=[]).exec()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([13], np.float32))])]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([7], np.float32))])]
"""


def test_after_a_fault_in_a_call_the_next_batch_does_not_get_the_answer_of_that_one(workshop, monkeypatch):
    served = workshop.serve(CODE)
    assert served.call(**X)["Y"] == [7]

    def broken(life, frame):
        life.calls.begin(frame, waits=True)
        raise MemoryError("in the call")

    monkeypatch.setattr(_Life, "take_call", broken)
    with pytest.raises(MemoryError, match="in the call"):
        served.run(X, id="call")
    error = served.run(X).error()
    assert isinstance(error, BackendError)
    assert "is not healthy" in str(error)
    workshop.log.wait_for("it answered exchange 2 in place of 3; its process is killed")
    assert served.call(**X)["Y"] == [7]
