"""A batch for tests of backends: keeps what the backend answers."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from charonia.core.errors import BackendError, CharoniaError
from charonia.core.request import NO_PARAMETERS, InferRequest, Parameter, Reply
from charonia.core.tensor import Array, Tensor
from charonia.testing.requests import KeptReplies

_PATIENCE_S = 20.0


class KeptBatch:
    """Implements `backends.base.Batch`. `replies` has what came for each request, in order.

    Outputs are kept as copies, made at `flush` like the wire does, unless `keep_lent`: then as the backend gave them.
    """

    def __init__(self, requests: Sequence[InferRequest], *, keep_lent: bool = False) -> None:
        self.requests = requests
        self.replies: list[list[Reply]] = [[] for _ in requests]
        self.stamps: list[str] = []
        self.rescheduled: list[InferRequest] = []
        self.held = False
        self.flushes = 0
        self._keep_lent = keep_lent
        self._changed = threading.Condition()

    @property
    def answers(self) -> list[Reply | None]:
        """The last reply to each request, None where it has not come yet."""
        return [replies[-1] if replies and replies[-1].final else None for replies in self.replies]

    @property
    def responses(self) -> list[list[Reply]]:
        """The replies to each request, without bare ends."""
        return [[reply for reply in replies if reply.error or reply.has_response] for replies in self.replies]

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

    def fail(self, request: InferRequest, error: CharoniaError, final: bool = True) -> None:
        self._keep(Reply(request, error=error, final=final))

    def flush(self) -> None:
        with self._changed:
            self.flushes += 1
            for reply in [reply for replies in self.replies for reply in replies]:
                if not self._keep_lent:
                    reply.outputs = [_copied(tensor) for tensor in reply.outputs]
            self._changed.notify_all()

    def ready_for_next(self) -> None: ...

    def hold(self) -> None:
        self.held = True

    def run(self, instance: Any) -> "KeptBatch":
        """Have the instance execute this batch, as its thread would, until everything is answered."""
        self.start(instance)
        return self.wait() if self.held else self

    def start(self, instance: Any) -> "KeptBatch":
        """As `run`, but what the backend holds may be answered later."""
        error: CharoniaError | None = None
        try:
            instance.start(self)
        except CharoniaError as raised:
            error = raised
        for request, answer in zip(self.requests, self.answers, strict=True):
            if answer is None and request not in self.rescheduled and (error is not None or not self.held):
                self.fail(request, error or BackendError("the backend did not answer"))
        self.flush()
        return self

    def wait(self, count: int | None = None) -> "KeptBatch":
        """Until so many responses have come to all requests together; by default until each is settled."""

        def there() -> bool:
            if count is not None:
                return sum(map(len, self.responses)) >= count
            settled = sum(answer is not None for answer in self.answers) + len(self.rescheduled)
            return settled == len(self.requests)

        with self._changed:
            assert self._changed.wait_for(there, _PATIENCE_S), f"no end: {self.replies}"
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
        with self._changed:
            if reply.final and not reply.request.settle():
                return
            self.replies[index].append(reply)


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
    on_device = tensor.buffer.device != "cpu"
    return tensor if on_device or isinstance(tensor.buffer.host(), bytes) else tensor.to_owned()
