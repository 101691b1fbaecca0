"""Calls of other models on the server's side: what is submitted, how a caller's end ends them, and errors as told."""

import numpy as np
import pytest

from charonia.backends.python.child.errors import TritonError
from charonia.backends.python.outgoing import CallDescription, OutgoingCalls, call_failure
from charonia.backends.python.results import error_code, reported_error
from charonia.core.errors import BackendError, InternalError, NotFoundError, QueueTimeoutError
from charonia.core.request import ANY_VERSION, Reply
from charonia.core.tensor import Tensor
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies

X = Tensor.from_numpy("X", np.zeros(2, np.float32), owned=True)


class Submitted:
    """A Submitter that keeps what it gets."""

    def __init__(self):
        self.requests = []

    def submit(self, request):
        self.requests.append(request)


@pytest.fixture
def submitter():
    return Submitted()


@pytest.fixture
def calls(submitter):
    return OutgoingCalls("caller", submitter, ManualClock(5))


def test_a_call_becomes_a_request(calls, submitter):
    description = CallDescription(
        "other", [X], 3, "id", "sequence", 1, 7, 2, {"word": "w"}, ("Y",), decoupled=True, ancestors=("root",)
    )
    channel, flow = KeptReplies(), object()
    request = calls.begin(description, channel, flow)
    assert submitter.requests == [request]
    assert (request.model_name, request.model_version, request.inputs) == ("other", 3, {"X": X})
    assert (request.id, request.correlation_id, request.flags) == ("id", "sequence", 1)
    assert (request.timeout_us, request.priority, request.parameters) == (7, 2, {"word": "w"})
    assert (request.requested_outputs, request.takes_stream) == (("Y",), True)
    assert (request.channel, request.flow, request.arrival_ns) == (channel, flow, 5)
    assert request.ancestors == ("root", "caller")


def test_a_call_with_nothing_said(calls):
    request = calls.begin(CallDescription("other", []), KeptReplies())
    assert (request.model_version, request.requested_outputs, request.takes_stream) == (ANY_VERSION, (), False)
    assert (request.parameters, request.ancestors, request.flow) == ({}, ("caller",), None)


def shaped(*shape, name="X"):
    return Tensor.from_numpy(name, np.zeros(shape, np.float32), owned=True)


def signature(calls, *inputs, outputs=()):
    return calls.begin(CallDescription("other", inputs, requested_outputs=outputs), KeptReplies()).signature


def test_calls_of_the_same_form_have_the_same_signature(calls):
    plain = signature(calls, shaped(1, 2))
    assert plain == signature(calls, shaped(3, 2))
    others = [
        signature(calls, shaped(1, 3)),
        signature(calls, shaped(1, 2, 1)),
        signature(calls, shaped(1, 2, name="Z")),
        signature(calls, shaped(1, 2), shaped(1, 2, name="Z")),
        signature(calls, shaped(1, 2), outputs=("Y",)),
    ]
    assert len({plain, *others}) == 6
    assert signature(calls, shaped()) == 0


@pytest.mark.parametrize(
    ("inputs", "batch_dim"), [([(3, 2), (3,)], 3), ([(3, 2), (2, 2)], -1), ([(), (2,)], -1), ([], -1)]
)
def test_the_batch_dim_is_the_first_one_where_all_share_it(calls, inputs, batch_dim):
    tensors = [shaped(*shape, name=f"X{index}") for index, shape in enumerate(inputs)]
    assert calls.begin(CallDescription("other", tensors), KeptReplies()).batch_dim == batch_dim


def test_the_end_of_the_caller_cancels_what_is_under_way_and_refuses_more(calls, submitter):
    under_way, settled = [calls.begin(CallDescription("other", []), KeptReplies()) for _ in range(2)]
    settled.settle()
    calls.close()
    assert (under_way.cancelled, settled.cancelled) == (True, False)
    replies = KeptReplies()
    refused = calls.begin(CallDescription("other", []), replies)
    assert replies.error_of(refused) == "model 'caller' can't call 'other': it has ended"
    assert len(submitter.requests) == 2


def test_without_a_server_a_call_is_refused():
    replies = KeptReplies()
    request = OutgoingCalls("caller", None, ManualClock()).begin(CallDescription("other", []), replies)
    assert "can't call 'other'" in replies.error_of(request)


def test_calls_that_are_over_are_forgotten(calls, submitter):
    calls.begin(CallDescription("other", []), KeptReplies())
    submitter.requests.clear()
    assert not calls._begun


@pytest.mark.parametrize("code", range(8))
def test_codes_come_back_as_they_went(code):
    assert error_code(reported_error(code, "text")) == code


def test_every_error_has_a_code():
    assert error_code(QueueTimeoutError("late")) == TritonError.UNAVAILABLE
    assert error_code(InternalError("ours")) == TritonError.INTERNAL


def test_a_refusal_has_the_words_that_callers_know(calls):
    request = calls.begin(CallDescription("other", []), KeptReplies())
    error = NotFoundError("no such model")
    assert call_failure(Reply(request, error=error)) == (
        TritonError.NOT_FOUND,
        "Model other - Error when running inference: no such model",
    )
    request.queue_start_ns = 1  # it was accepted: the error is the model's own
    assert call_failure(Reply(request, error=BackendError("broken"))) == (TritonError.INTERNAL, "broken")


def test_an_end_without_a_response_is_a_failure_of_the_call(calls):
    request = calls.begin(CallDescription("other", []), KeptReplies())
    request.queue_start_ns = 1
    assert call_failure(Reply(request, has_response=False)) == (
        TritonError.INTERNAL,
        "model 'other' ended without a response to the call",
    )
