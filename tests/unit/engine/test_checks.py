"""Whether a request fits its model: what is accepted, and what the refusal says."""

import numpy as np
import pytest

from charonia.config.io import InputSpec, OutputSpec
from charonia.core.errors import InvalidArgumentError
from charonia.core.tensor import Tensor
from charonia.engine.checks import RequestCheck
from charonia.testing.requests import KeptReplies, make_request

OUTPUTS = (OutputSpec("OUT", "FP32", (4,)), OutputSpec("OTHER", "FP32", (4,)))


def check_of(*inputs, max_batch_size=8):
    return RequestCheck("m", inputs or (InputSpec("A", "FP32", (4,)),), OUTPUTS, max_batch_size)


def request_of(signature=0, batch_dim=-1, requested_outputs=(), **shapes):
    inputs = {}
    for name, (datatype, shape) in shapes.items():
        dtype = {"FP32": np.float32, "INT32": np.int32}[datatype]
        inputs[name] = Tensor.from_numpy(name, np.zeros(shape, dtype))
    return make_request(
        KeptReplies(), inputs=inputs, signature=signature, batch_dim=batch_dim, requested_outputs=requested_outputs
    )


def test_a_fitting_request_gets_batch_size_and_shape_key():
    check = check_of(InputSpec("A", "FP32", (-1,)))
    three, other, same = (request_of(A=("FP32", shape)) for shape in ([3, 4], [3, 5], [1, 4]))
    for request in (three, other, same):
        check.check(request)
    assert (three.batch_size, other.batch_size, same.batch_size) == (3, 3, 1)
    assert three.shape_key == same.shape_key != other.shape_key


@pytest.mark.parametrize(
    ("shapes", "outputs", "said"),
    [
        (
            {},
            (),
            r"expected 1 inputs but got 0 inputs for model 'm'. .* missing required input\(s\) \['A'\]",
        ),
        ({"A": ("FP32", [1, 4]), "B": ("FP32", [1, 4])}, (), "unexpected inference input 'B' for model 'm'.*'A'"),
        ({"A": ("INT32", [1, 4])}, (), "input 'A' data-type is 'INT32', but model 'm' expects 'FP32'"),
        ({"A": ("FP32", [1, 5])}, (), r"unexpected shape for input 'A' for model 'm'. Expected \[-1,4\], got \[1,5\]"),
        ({"A": ("FP32", [4])}, (), r"Expected \[-1,4\], got \[4\].*batch dimension"),
        ({"A": ("FP32", [])}, (), r"Expected \[-1,4\], got \[\]"),
        ({"A": ("FP32", [9, 4])}, (), "batch-size must be <= 8 for 'm', got 9"),
        ({"A": ("FP32", [0, 4])}, (), "batch-size must be at least 1"),
        ({"A": ("FP32", [1, 4])}, ("NOPE",), "unexpected inference output 'NOPE' for model 'm'.*'OTHER','OUT'"),
        ({"A": ("FP32", [1, 4])}, ("OUT", "OUT"), "output 'OUT' already exists in request"),
    ],
)
def test_refusals_name_what_was_expected_and_what_came(shapes, outputs, said):
    with pytest.raises(InvalidArgumentError, match=said):
        check_of().check(request_of(requested_outputs=outputs, **shapes))


def test_inputs_must_agree_on_the_batch_size():
    check = check_of(InputSpec("A", "FP32", (4,)), InputSpec("B", "FP32", (4,)))
    with pytest.raises(InvalidArgumentError, match="input 'B' batch size does not match other inputs for 'm'"):
        check.check(request_of(A=("FP32", [2, 4]), B=("FP32", [3, 4])))


def test_optional_inputs_may_be_absent_but_then_batch_apart():
    check = check_of(InputSpec("A", "FP32", (4,)), InputSpec("B", "FP32", (4,), optional=True))
    without, complete = request_of(A=("FP32", [1, 4])), request_of(A=("FP32", [1, 4]), B=("FP32", [1, 4]))
    check.check(without)
    check.check(complete)
    assert without.shape_key != complete.shape_key
    with pytest.raises(InvalidArgumentError, match="expected number of inputs between 1 and 2 but got 1 inputs"):
        check.check(request_of(B=("FP32", [1, 4])))


def test_reshape_changes_the_shape_and_not_the_bytes():
    check = check_of(InputSpec("A", "FP32", (1,), reshape=()), InputSpec("B", "FP32", (-1, 2), reshape=(2, -1)))
    request = request_of(A=("FP32", [3, 1]), B=("FP32", [3, 5, 2]))
    check.check(request)
    assert request.inputs["A"].shape == (3,)
    assert request.inputs["B"].shape == (3, 2, 5)


def test_models_that_do_not_batch_take_the_whole_shape():
    check = check_of(InputSpec("A", "FP32", (2, -1)), max_batch_size=0)
    request = request_of(A=("FP32", [2, 7]))
    check.check(request)
    assert request.batch_size == 1
    with pytest.raises(InvalidArgumentError, match=r"Expected \[2,-1\], got \[3,7\]"):
        check.check(request_of(A=("FP32", [3, 7])))


def test_a_remembered_signature_still_has_its_batch_size_checked():
    check = check_of()
    check.check(request_of(signature=99, batch_dim=2, A=("FP32", [2, 4])))
    again = request_of(signature=99, batch_dim=5, A=("FP32", [5, 4]))
    check.check(again)
    assert again.batch_size == 5
    with pytest.raises(InvalidArgumentError, match="must be <= 8"):
        check.check(request_of(signature=99, batch_dim=9, A=("FP32", [9, 4])))


def test_without_batching_the_first_dim_is_part_of_what_is_remembered():
    check = check_of(InputSpec("A", "FP32", (2, -1)), max_batch_size=0)
    check.check(request_of(signature=7, batch_dim=2, A=("FP32", [2, 4])))
    with pytest.raises(InvalidArgumentError, match=r"got \[3,4\]"):
        check.check(request_of(signature=7, batch_dim=3, A=("FP32", [3, 4])))


def test_clients_that_make_up_shapes_do_not_fill_the_memory():
    check = check_of(InputSpec("A", "FP32", (-1,)))
    for width in range(10_000):
        check.check(request_of(signature=width + 1, batch_dim=1, A=("FP32", [1, width])))
    assert len(check._known) <= 4096
    assert len(check._shape_keys) <= 4096
