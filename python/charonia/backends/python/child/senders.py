"""`pb_utils.InferenceResponseSender`, and how what it sent goes together with what `execute` returned."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, Sequence

from .errors import ModelFailure, TritonError, TritonModelException
from .responses import (
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceResponse,
)
from .runtime import ERROR

if TYPE_CHECKING:
    from .messages import InferenceRequest


class Fate:
    """What becomes of a request that is not answered by what `execute` returned."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


SENT = Fate("SENT")
"""Its sender has sent all there is."""
HELD = Fate("HELD")
"""Its sender will send more, from whatever thread."""
RESCHEDULED = Fate("RESCHEDULED")
"""It goes back to the scheduler."""

Outcome = Any  # InferenceResponse, TritonError or Fate


class InferenceResponseSender:
    """Sends the responses of one request, from any thread: any number for decoupled models, one for others.

    It does not hold its request: where a model drops both before the end, the runtime learns of it at once.

    Attributes:
        _key: what the runtime knows the request by.
        _ahead: for the runtime to count in: responses that their reader has not taken.
    """

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_closed",
        "_count",
        "_is_cancelled",
        "_is_taken",
        "_key",
        "_lock",
        "_runtime",
        "_unwanted",
    )

    def __init__(self, request: InferenceRequest) -> None:
        self._closed = False
        self._count = 0
        self._is_taken = False  # whether the model has asked for it
        self._runtime = request._runtime
        self._is_cancelled = request._is_cancelled
        self._unwanted = request._unwanted
        self._lock = threading.Lock()
        self._key = request._slot
        self._ahead = 0

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Blocks while the reader of the responses is too far behind.

        Raises:
            TritonModelException: the sender is closed, a plain model's second response, wrong flags, outputs that
                can't be sent.
        """
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError(f"send needs an InferenceResponse, got {type(response).__name__}")
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise _cannot(
                "Unsupported flag provided", f"flags must be 0 or TRITONSERVER_RESPONSE_COMPLETE_FINAL: {flags}"
            )
        final = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if response is None and not final:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero: "
                "only the end of the responses comes without one"
            )
        if self._ahead:
            self._runtime.wait_for_room(self)
        with self._lock:
            self._check_turn(response)
            if self._is_awaited:
                # The one response of a plain model is its last, whatever the flags say.
                self._runtime.send(self, _pruned(self._unwanted, response), final or not self._runtime.decoupled)
            self._count += 1
            self._closed = final

    def is_cancelled(self) -> bool:
        return bool(self._is_cancelled(self._key))

    def _check_turn(self, response: InferenceResponse | None) -> None:
        plain = not self._runtime.decoupled
        if plain and response is not None and self._count:
            raise _cannot("Non-decoupled model cannot send more than one response", _MAKE_DECOUPLED)
        if plain and response is None and not self._count:
            raise _cannot("Non-decoupled model cannot send complete final before sending a response")
        if self._closed:
            raise _cannot("Response sender has been closed")  # these very words: models compare them

    @property
    def _is_awaited(self) -> bool:
        """Whether the request waits for a response or for its end."""
        return not self._closed and (self._runtime.decoupled or not self._count)

    def _close(self) -> bool:
        """Let nothing be sent any more. False when the request was answered to its end already."""
        with self._lock:
            was_awaited, self._closed = self._is_awaited, True
        return was_awaited

    def _fail(self, text: str) -> bool:
        """End the request with an error. False when it has ended already."""
        with self._lock:
            was_awaited = self._is_awaited
            if was_awaited:
                self._runtime.send(self, InferenceResponse(error=TritonError(text)), True)
            self._closed = True
        return was_awaited

    def __del__(self) -> None:
        if self._is_awaited:
            self._runtime.dropped(self)


def outcomes(
    requests: Sequence[InferenceRequest], returned: Any, decoupled: bool, sentence: Callable[[str], str]
) -> list[Outcome]:
    """What becomes of each request after `execute` has returned. Raises ModelFailure: it returned something else.

    Args:
        sentence: makes what the client is told of what is wrong with one response.
    """
    if decoupled:
        return [_fate(request) for request in requests]
    nothing = "no response (None)"
    if returned is None:
        returned, nothing = [None] * len(requests), "None in place of a list with an InferenceResponse"
    if not isinstance(returned, (list, tuple)):
        raise ModelFailure(f"execute must return a list of InferenceResponse, got {type(returned).__name__}")
    if len(returned) != len(requests):
        raise ModelFailure(
            f"execute returned {len(returned)} InferenceResponse objects for {len(requests)} InferenceRequest "
            "objects; it must return one for each, in the same order"
        )
    # Not by `_is_rescheduled`: every request of every plain model passes here, so a call for each is worth sparing.
    others = [
        request
        for request in requests
        if request._sender is not None or request._release_flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
    ]
    if not others and set(map(type, returned)) == {InferenceResponse}:
        return list(returned)
    return [_outcome(request, response, nothing, sentence) for request, response in zip(requests, returned)]


def failed(requests: Sequence[InferenceRequest], text: str, decoupled: bool) -> list[Outcome]:
    """What becomes of each request after `execute` has raised: an error for those that are not answered to the end.

    In decoupled models it is sent here, so that it comes behind the responses that were sent before. Where nobody waits
    for it, it goes to the log, where answers with errors are told too.
    """
    senders = [request.get_response_sender() for request in requests]
    told = [sender._fail(text) if decoupled else sender._close() for sender in senders]
    if requests and not any(told):
        requests[0]._runtime.log(ERROR, text, "model.py", 0)
    return [TritonError(text) if waits and not decoupled else SENT for waits in told]


def dropped_error(sender: InferenceResponseSender, is_unloading: bool) -> TritonError:
    """For a request whose sender has gone before the end.

    Args:
        is_unloading: it went with the model, which may have kept it as long as it could.
    """
    runtime = sender._runtime
    model = f"model '{runtime.model_name}'"
    if is_unloading:
        text = f"the instance of {model} that had the request was unloaded before it sent the last response"
    elif not runtime.decoupled:
        text = (
            f"execute of {model} returned no response (None) for the request, and its response sender has gone without "
            "sending one"
        )
    elif sender._is_taken:
        text = (
            f"{model} has let go of the request's response sender without TRITONSERVER_RESPONSE_COMPLETE_FINAL, so "
            "nothing more would ever come"
        )
    else:
        text = (
            f"execute of {model}, which is decoupled, returned without taking the request's response sender: "
            "get_response_sender() gives it, and the last it sends has TRITONSERVER_RESPONSE_COMPLETE_FINAL"
        )
    return TritonError(text)


def _outcome(request: InferenceRequest, response: Any, nothing: str, sentence: Callable[[str], str]) -> Outcome:
    if response is None and (request._sender is not None or _is_rescheduled(request)):
        return _fate(request)
    if not isinstance(response, InferenceResponse):
        what = nothing if response is None else f"{type(response).__name__}, not an InferenceResponse,"
        if hasattr(response, "__await__"):
            what += " without awaiting it,"
        return TritonError(sentence(f"execute returned {what} for the request"))
    if _is_rescheduled(request):
        text = (
            "Expected a None object in the execute function return list for reschduled request, "  # Triton's spelling
            f"found {type(response).__name__}: it is executed again, and answered then"
        )
        return TritonError(sentence(text))
    if request._sender is not None and not request._sender._close():
        text = "execute returned a response for a request that its response sender has answered already: it is dropped"
        request._runtime.log(ERROR, text, "model.py", 0)
        return SENT
    return response


def _fate(request: InferenceRequest) -> Fate:
    sender = request._sender
    is_answered = sender is not None and not sender._is_awaited
    if not _is_rescheduled(request):
        return SENT if is_answered else HELD
    if is_answered and not request._runtime.decoupled:
        text = (
            "execute asked for a request to be rescheduled that its response sender has answered: it is not executed "
            f"again, since a model that is not decoupled has one response for a request; {_MAKE_DECOUPLED}"
        )
        request._runtime.log(ERROR, text, "model.py", 0)
        return SENT
    return RESCHEDULED


def _is_rescheduled(request: InferenceRequest) -> bool:
    return request._release_flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE


def _pruned(unwanted: Sequence[str], response: InferenceResponse | None) -> InferenceResponse | None:
    """Without the outputs that the client did not ask for."""
    if response is None or not unwanted or response._error is not None:
        return response
    kept = [tensor for tensor in response._outputs if tensor._name not in unwanted]
    if len(kept) == len(response._outputs):
        return response
    pruned = InferenceResponse(kept)
    pruned._parameters = response._parameters
    return pruned


_MAKE_DECOUPLED = "for more, its configuration needs model_transaction_policy { decoupled: true }"


def _cannot(reason: str, detail: str = "") -> TritonModelException:
    return TritonModelException(f"Unable to send response. {reason}{': ' + detail if detail else ''}.")
