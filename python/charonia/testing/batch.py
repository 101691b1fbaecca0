"""A batch for tests of backends: keeps what the backend answers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from charonia.core.errors import BackendError, CharoniaError
from charonia.core.request import NO_PARAMETERS, InferRequest, Parameter, Reply
from charonia.core.tensor import Array, Tensor
from charonia.testing.requests import KeptReplies


class KeptBatch:
    """Implements `backends.base.Batch`. `answers` are in the order of the requests, None where there is none yet.

    Outputs are kept as copies, made at `flush` like the wire does, unless `keep_lent`: then as the backend gave them.
    """

    def __init__(self, requests: Sequence[InferRequest], *, keep_lent: bool = False) -> None:
        self.requests = requests
        self.answers: list[Reply | None] = [None] * len(requests)
        self.stamps: list[str] = []
        self.rescheduled: list[InferRequest] = []
        self.flushes = 0
        self._keep_lent = keep_lent

    def inputs_ready(self) -> None:
        self.stamps.append("inputs")

    def outputs_ready(self) -> None:
        self.stamps.append("outputs")

    def respond(
        self,
        request: InferRequest,
        outputs: Sequence[Tensor],
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        final: bool = True,
    ) -> None:
        self._keep(Reply(request, outputs, None, parameters, final))

    def end(self, request: InferRequest) -> None:
        self._keep(Reply(request, has_response=False))

    def reschedule(self, request: InferRequest) -> None:
        self.rescheduled.append(request)

    def fail(self, request: InferRequest, error: CharoniaError) -> None:
        self._keep(Reply(request, error=error))

    def flush(self) -> None:
        self.flushes += 1
        for answer in self.answers:
            if answer is not None and not self._keep_lent:
                answer.outputs = [_copied(tensor) for tensor in answer.outputs]

    def ready_for_next(self) -> None: ...
    def hold(self) -> None: ...

    def run(self, instance: Any) -> "KeptBatch":
        """Have the instance execute this batch, as its thread would."""
        error: CharoniaError | None = None
        try:
            instance.start(self)
        except CharoniaError as raised:
            error = raised
        for request, answer in zip(self.requests, list(self.answers), strict=True):
            if answer is None:
                self.fail(request, error or BackendError("the backend did not answer"))
        self.flush()
        return self

    def outputs(self, index: int = 0) -> dict[str, Array]:
        """The outputs of one request by name; fails when it was answered with an error."""
        answer = self.answers[index]
        assert answer is not None
        assert answer.error is None, answer.error
        return {tensor.name: tensor.numpy() for tensor in answer.outputs}

    def error(self, index: int = 0) -> CharoniaError:
        answer = self.answers[index]
        assert answer is not None
        assert answer.error is not None, f"no error, but {answer.outputs}"
        return answer.error

    def _keep(self, reply: Reply) -> None:
        index = next(number for number, request in enumerate(self.requests) if request is reply.request)
        assert self.answers[index] is None, "answered twice"
        self.answers[index] = reply


def make_batch(*rows: Mapping[str, Any], keep_lent: bool = False, **options: Any) -> KeptBatch:
    """A batch of requests with these inputs: arrays or Tensors by name. `options` go to each InferRequest."""
    requests = [
        InferRequest("m", -1, {name: _tensor(name, value) for name, value in row.items()}, KeptReplies(), 0, **options)
        for row in rows
    ]
    return KeptBatch(requests, keep_lent=keep_lent)


def _tensor(name: str, value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor.from_numpy(name, np.asarray(value), owned=True)


def _copied(tensor: Tensor) -> Tensor:
    return tensor.to_owned() if not isinstance(tensor.buffer.host(), bytes) else tensor
