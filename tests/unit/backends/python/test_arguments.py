"""What the constructors of pb_utils refuse, and by which exception: models and their tests catch them by type."""

import numpy as np
import pytest

from charonia.backends.python.child.errors import TritonModelException
from charonia.backends.python.child.messages import InferenceRequest, InferenceResponse
from charonia.backends.python.child.tensor import Tensor

X = Tensor("X", np.zeros(2, np.int32))
WHOLE = {"inputs": [X], "model_name": "other", "requested_output_names": ["Y"]}


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"inputs": [None]}, TritonModelException),
        ({"inputs": None}, TypeError),
        ({"inputs": [5]}, TypeError),
        ({"model_name": None}, TypeError),
        ({"requested_output_names": [None]}, TypeError),
        ({"requested_output_names": None}, TypeError),
        ({"requested_output_names": "Y"}, TypeError),
        ({"requested_output_names": ["Y", ""]}, TritonModelException),
        ({"correlation_id": None}, TypeError),
        ({"correlation_id": 1.5}, TritonModelException),
        ({"request_id": None}, TypeError),
        ({"model_version": None}, TypeError),
        ({"flags": None}, TypeError),
        ({"timeout": 0.5}, TypeError),
        ({"parameters": []}, TypeError),
        ({"parameters": {1: "x"}}, TritonModelException),
        ({"parameters": {"x": None}}, TritonModelException),
    ],
)
def test_wrong_arguments_of_a_request_are_named(changed, kind):
    with pytest.raises(kind, match=next(iter(changed)).removesuffix("s").replace("correlation_id", "correlation.id")):
        InferenceRequest(**{**WHOLE, **changed})


def test_right_arguments_of_a_request_are_kept():
    request = InferenceRequest(
        **WHOLE,
        request_id=np.str_("r"),
        correlation_id="c",
        model_version=np.int64(3),
        flags=2,
        timeout=7,
        parameters={},
    )
    assert (request.request_id(), request.correlation_id(), request.flags(), request.timeout()) == ("r", "c", 2, 7)
    assert (request._model_name, request._model_version, request.parameters()) == ("other", 3, "{}")
    assert request.inputs() == [X]
    assert request.requested_output_names() == ["Y"]
    twice = InferenceRequest(**{**WHOLE, "requested_output_names": ["Z", "Y", "Z"]})
    assert twice.requested_output_names() == ["Z", "Y"]
    assert InferenceRequest(requested_output_names=[], inputs=[], model_name="m").correlation_id() == 0
    assert InferenceRequest(**WHOLE, correlation_id=5).correlation_id() == 5


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"output_tensors": [None]}, TritonModelException, "output_tensors must hold Tensor objects, got None"),
        ({"output_tensors": [X, 5]}, TypeError, "output_tensors must hold Tensor objects, got int"),
        ({"output_tensors": None}, TypeError, "NoneType"),
        ({"output_tensors": X}, TypeError, "output_tensors must be a list, got Tensor"),
        ({"output_tensors": 5}, TypeError, "output_tensors must be a list, got int"),
        ({"parameters": []}, TypeError, "must be a dict, got <class 'list'>"),
        ({"parameters": ["x"]}, TypeError, "must be a dict, got <class 'list'>"),
        ({"error": "x"}, TypeError, "error must be a TritonError, got str"),
    ],
)
def test_wrong_arguments_of_a_response(given, kind, text):
    with pytest.raises(kind, match=text):
        InferenceResponse(**given)


def test_empty_responses_are_right():
    assert InferenceResponse(output_tensors=[]).output_tensors() == []
    assert InferenceResponse([X], parameters={}).parameters() == "{}"
    assert InferenceResponse([X], parameters=None).parameters() == "{}"


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: Tensor(None, np.zeros(1)), TypeError),
        (lambda: Tensor("Y", None), TypeError),
        (lambda: Tensor("", None), TypeError),
        (lambda: Tensor("", np.zeros(1)), TritonModelException),
        (lambda: Tensor.from_dlpack("Y", None), TritonModelException),
        (lambda: Tensor.from_dlpack("", None), TritonModelException),
        (lambda: Tensor.from_dlpack(None, np.zeros(1)), TypeError),
    ],
)
def test_wrong_arguments_of_a_tensor(make, kind):
    with pytest.raises(kind):
        make()


def test_names_may_be_elements_of_a_tensor():
    names = np.array([b"other", b"Y"], object)
    request = InferenceRequest(inputs=[X], model_name=names[0], requested_output_names=[names[1]])
    assert (request._model_name, request.requested_output_names()) == ("other", ["Y"])
