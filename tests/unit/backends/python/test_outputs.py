"""Outputs of other dims than configured: passed on and told of, unless something counts on the dims."""

import numpy as np
import pytest

from charonia.backends.python.notes import OutputNotes
from charonia.backends.python.outputs import OutputCheck
from charonia.config.io import OutputSpec
from charonia.core.log import SilentLog

GROWS = """
class TritonPythonModel:
    def execute(self, requests):
        x = requests[0].inputs()[0].as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x[:, :3])]) for _ in requests]
"""


def test_dims_of_another_size_are_answered_with_one_warning(serve, workshop):
    served = serve(GROWS, outputs="Y:TYPE_FP32:16", max_batch_size=8)
    for _ in range(2):
        assert served.call(X=np.ones((2, 5), np.float32))["Y"].shape == (2, 3)
    (message,) = workshop.log.messages
    assert message.startswith("model 'm' returns output 'Y' with shape [2, 3], its configuration says [-1, 16]")
    assert "change dims in the configuration" in message


def test_where_a_reshape_counts_on_the_dims_they_must_be_right():
    spec = OutputSpec("Y", "FP32", (6,), (2, 3))
    check = OutputCheck("m", [spec], True, OutputNotes("m", SilentLog()))
    assert check.problem("Y", "FP32", (1, 2, 3)) is None
    assert check.problem("Y", "FP32", (1, 2, 4)) == (
        "model 'm' returned output 'Y' with shape [1, 2, 4], its configuration says [-1, 2, 3]"
    )


def test_an_output_without_elements_has_no_wrong_ones(serve, workshop):
    """np.array([]) is FP64, whatever the output is."""
    code = GROWS.replace("x[:, :3]", "np.array([])").replace("class ", "import numpy as np\n\nclass ", 1)
    for datatype in ("TYPE_STRING", "TYPE_INT32", "TYPE_BOOL", "TYPE_FP16"):
        served = serve(code, outputs=f"Y:{datatype}:1,-1")
        answer = served.call(X=np.ones(16, np.float32))["Y"]
        assert (answer.shape, answer.tolist()) == ((0,), [])


def test_a_reshape_counts_on_dims_without_elements_too():
    check = OutputCheck("m", [OutputSpec("Y", "FP32", (6,), (2, 3))], False, OutputNotes("m", SilentLog()))
    assert "with shape [0]" in (check.problem("Y", "FP32", (0,)) or "")


@pytest.mark.parametrize(
    ("dims", "shape", "right"),
    [
        ((1,), (4,), True),
        ((1,), (1,), True),
        ((4,), (4,), False),  # the batch dimension is missing
        ((), (3, 1), True),
        ((2, 1, 3), (5, 2, 3), True),
        ((-1,), (5,), True),
        ((2,), (4,), False),
        ((2, 3), (5, 3, 2), True),  # the same number of dimensions: of other sizes, as ever
        ((2, 3), (5, 6), False),
    ],
)
def test_dimensions_of_size_1_may_be_missing_or_too_many(dims, shape, right):
    check = OutputCheck("m", [OutputSpec("Y", "FP32", dims)], True, OutputNotes("m", SilentLog()))
    problem = check.problem("Y", "FP32", shape)
    assert (problem is None) == right, problem


def test_clients_get_no_state_so_nothing_is_told_of_its_dims(workshop):
    log = workshop.log
    notes = OutputNotes("m", log)
    check = OutputCheck("m", [OutputSpec("Y", "FP32", (1,))], True, notes, [OutputSpec("NEXT", "FP32", (1,))])
    assert check.problem("NEXT", "FP32", (1, 2)) is None
    assert log.messages == []
    assert check.problem("Y", "FP32", (1, 2)) is None
    assert len(log.messages) == 1
    assert "datatype INT32, its configuration says FP32" in (check.problem("NEXT", "INT32", (1, 1)) or "")
