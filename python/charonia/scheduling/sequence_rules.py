"""What a request of a model with sequences must be, and what is said of one that ends without being executed."""

from charonia.core.correlation import check_text
from charonia.core.errors import (
    CancelledError,
    CharoniaError,
    InvalidArgumentError,
    QueueTimeoutError,
    UnavailableError,
)
from charonia.core.request import InferRequest
from charonia.core.text import shown
from charonia.scheduling.queue import request_prefix
from charonia.scheduling.sequence_controls import SequenceControls


def check_request(request: InferRequest, controls: SequenceControls, *, needs_id: bool) -> None:
    """
    Raises:
        InvalidArgumentError: the request can't belong to a sequence of this model.
        UnsupportedError: its id is too long.
    """
    if request.batch_size > 1:
        raise InvalidArgumentError(
            f"inference request to model '{request.model_name}' must specify batch-size 1 due to requirements of "
            f"sequence batcher, got {request.batch_size}"
        )
    if request.correlation_id:
        if isinstance(request.correlation_id, str):
            check_text(request.correlation_id, request_prefix(request))
        controls.check(request)
    elif needs_id:
        raise InvalidArgumentError(
            f"inference request to model '{request.model_name}' must specify a non-zero or non-empty correlation ID"
        )


def not_started(request: InferRequest, idle_us: int) -> CharoniaError:
    """Of sequences that were idle for too long nothing is kept, so each refusal names the limit."""
    return InvalidArgumentError(
        f"inference request for {_sequence(request)} to model '{request.model_name}' must specify the START flag on "
        f"the first request of the sequence; a sequence without requests for {idle_us / 1_000_000:g} s has ended"
    )


def cancelled(request: InferRequest) -> CharoniaError:
    what = "the request" if request.cancelled else f"a request of {_sequence(request)}, and with it this one,"
    return CancelledError(f"{request_prefix(request)}{what} was cancelled while it waited")


def expired(request: InferRequest) -> CharoniaError:
    return QueueTimeoutError(
        f"timeout of the corresponding sequence has been expired: {_sequence(request)} got no slot of model "
        f"'{request.model_name}' in time"
    )


def instance_died(request: InferRequest) -> CharoniaError:
    return UnavailableError(
        f"{request_prefix(request)}{_sequence(request)} of model '{request.model_name}' is over: the process of the "
        "instance that had it died; start it again"
    )


def _sequence(request: InferRequest) -> str:
    return f"sequence {shown(str(request.correlation_id))}"
