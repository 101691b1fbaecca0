"""Inference from the same process: the engine without ports."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass

from charonia.core.clock import Clock
from charonia.core.protocols import Submitter
from charonia.core.request import ANY_VERSION, NO_PARAMETERS, InferRequest, Parameter, Reply
from charonia.core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class InferResult:
    """One answer: which version gave it, its outputs by name (their memory is the caller's), response parameters."""

    model_name: str
    model_version: str
    id: str
    outputs: Mapping[str, Tensor]
    parameters: Mapping[str, Parameter]


class ResultFuture(Future[InferResult]):
    """The answer to come. `cancel` takes the request out of the queue; one that is executed is not stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.request: InferRequest | None = None

    def cancel(self) -> bool:
        # The future first: else the queue's refusal would settle it, and it would not count as cancelled.
        request = self.request
        cancelled = super().cancel()
        if cancelled and request is not None:
            request.cancel()
        return cancelled

    def send(self, replies: Sequence[Reply]) -> None:
        """The request's ReplyChannel."""
        for reply in replies:
            self.request = None  # the two refer to each other
            if self.done():
                return
            try:
                if reply.error is not None:
                    self.set_exception(reply.error)
                else:
                    self.set_result(_result(reply))
            except InvalidStateError:
                return  # cancelled since we looked


def _result(reply: Reply) -> InferResult:
    request = reply.request
    outputs = {tensor.name: tensor.to_owned() for tensor in reply.outputs}
    return InferResult(request.model_name, request.version, request.id, outputs, reply.parameters)


class InprocClient:
    """Submits requests and gives futures."""

    def __init__(self, submitter: Submitter, clock: Clock) -> None:
        self._submitter = submitter
        self._clock = clock

    def submit(
        self,
        model_name: str,
        inputs: Sequence[Tensor],
        *,
        version: int = ANY_VERSION,
        id: str = "",
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        priority: int = 0,
        timeout_us: int = 0,
    ) -> ResultFuture:
        """Start one inference. Input memory must not change until the future is done.

        Args:
            version: ANY_VERSION for the server's choice.
            outputs: names of the outputs wanted, empty for all.
            timeout_us: the request's queue time-out in microseconds, where the model allows one.
        """
        future = ResultFuture()
        request = InferRequest(
            model_name,
            version,
            {tensor.name: tensor for tensor in inputs},
            future,
            self._clock.now_ns(),
            id=id,
            requested_outputs=tuple(outputs),
            parameters=parameters,
            priority=priority,
            timeout_us=timeout_us,
        )
        future.request = request
        self._submitter.submit(request)
        return future
