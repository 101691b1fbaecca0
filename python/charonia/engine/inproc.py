"""Inference from the same process: the engine without ports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from charonia.core.clock import Clock
from charonia.core.protocols import Submitter
from charonia.core.reply_queue import ReplyQueue
from charonia.core.request import ANY_VERSION, NO_PARAMETERS, Flow, InferRequest, Parameter, ReplyChannel
from charonia.core.tensor import Tensor
from charonia.engine.inproc_answers import InferResult, Leavers, ResponseStream, ResultFuture

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InferOptions:
    """What a request says beside its inputs.

    Attributes:
        version: ANY_VERSION for the server's choice.
        outputs: names of the outputs wanted, empty for all.
        timeout_us: the request's queue time-out in microseconds, where the model allows one.
        correlation_id: of the sequence that it belongs to, 0 or "" for none.
        flags: SEQUENCE_START and SEQUENCE_END.
    """

    version: int = ANY_VERSION
    id: str = ""
    outputs: Sequence[str] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=lambda: NO_PARAMETERS)
    priority: int = 0
    timeout_us: int = 0
    correlation_id: int | str = 0
    flags: int = 0


NO_OPTIONS = InferOptions()


class InprocClient:
    """Submits requests; gives futures of one answer, or streams of answers. `close` it after the last request."""

    def __init__(self, submitter: Submitter, clock: Clock) -> None:
        self._submitter = submitter
        self._clock = clock
        self._leavers = Leavers()

    def submit(self, model_name: str, inputs: Sequence[Tensor], options: InferOptions = NO_OPTIONS) -> ResultFuture:
        """Start one inference. Input memory must not change until the future is done."""
        future = ResultFuture()
        request = future.request = self._request(model_name, inputs, options, future)
        self._submitter.submit(request)
        return future

    def stream(
        self,
        model_name: str,
        inputs: Sequence[Tensor],
        convert: Callable[[InferResult], T],
        options: InferOptions = NO_OPTIONS,
        timeout_s: float | None = None,
    ) -> ResponseStream[T]:
        """Start one inference with any number of answers. Input memory must not change until the stream has ended.

        Args:
            convert: makes what the stream gives of each answer.
            timeout_s: how long to wait for each.
        """
        self._leavers.start()
        replies = ReplyQueue()
        request = self._request(model_name, inputs, options, replies, replies)
        stream = ResponseStream(request, replies, convert, timeout_s, self._leavers)
        self._submitter.submit(request)
        return stream

    def close(self) -> None:
        self._leavers.close()

    def _request(
        self,
        model_name: str,
        inputs: Sequence[Tensor],
        options: InferOptions,
        channel: ReplyChannel,
        flow: Flow | None = None,
    ) -> InferRequest:
        return InferRequest(
            model_name,
            options.version,
            {tensor.name: tensor for tensor in inputs},
            channel,
            self._clock.now_ns(),
            id=options.id,
            requested_outputs=tuple(options.outputs),
            parameters=options.parameters,
            priority=options.priority,
            timeout_us=options.timeout_us,
            correlation_id=options.correlation_id,
            flags=options.flags,
            takes_stream=flow is not None,
            flow=flow,
        )
