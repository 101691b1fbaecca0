"""An inline instance: a model in the server's own process, for light models and for debugging."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from charonia.backends.base import Batch, ModelContext
from charonia.backends.joining import host_bytes
from charonia.backends.python.child.batch import BatchReader
from charonia.backends.python.child.columns import IN_FRAME_BYTES, IN_WRITER, Packer
from charonia.backends.python.child.datatypes import BYTES
from charonia.backends.python.child.errors import ModelFailure, TritonModelException, not_yet
from charonia.backends.python.child.internals import INTERNAL_NAME, build_internals
from charonia.backends.python.child.messages import InferenceRequest, InferenceResponse
from charonia.backends.python.child.model import Model
from charonia.backends.python.child.pb_utils import MODULE_NAME, build_module
from charonia.backends.python.child.tensor import Tensor as ModelTensor
from charonia.backends.python.encoding import facts_of, groups_of, requested_of
from charonia.backends.python.events import ModelEvents
from charonia.backends.python.launch import ModelFiles
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.results import reported_error
from charonia.backends.python.scope import Scope
from charonia.backends.python.widening import widened
from charonia.core.errors import BackendError, CharoniaError
from charonia.core.log import Log
from charonia.core.request import NO_PARAMETERS, InferRequest
from charonia.core.tensor import HostBuffer, Tensor


class InlineProgram:
    """The code of one model version, loaded once for all its instances."""

    def __init__(self, files: ModelFiles, events: ModelEvents, log: Log) -> None:
        self._files = files
        self._events = events
        self.runtime = InlineRuntime(str(files.version_dir), events)
        self._log = log
        self._lock = threading.Lock()
        self._scope: Scope | None = None
        self._module: Any = None

    def module(self) -> Any:
        """The model's module, imported at the first call. Raises ModelFailure."""
        with self._lock:
            if self._module is None:
                api = build_module(self.runtime)
                provided = {MODULE_NAME: api, INTERNAL_NAME: build_internals(api, lambda: 0)}
                # In a terminal it is the builtin itself: a function of ours would be the frame that the debugger shows.
                stop = breakpoint if _has_terminal() else self._pass_over_breakpoint
                self._scope = Scope(self._files.folders, provided, stop)
                self._module = self._scope.load(self._files.model_file)
        return self._module

    def close(self) -> None:
        """Forget the code. Metrics that the model made go with it."""
        with self._lock:
            scope, self._scope, self._module = self._scope, None, None
        if scope is not None:
            scope.close()
        self._events.close()

    def _pass_over_breakpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Without a terminal the default debugger would read nothing and end the request."""
        if sys.breakpointhook is not sys.__breakpointhook__:
            return sys.breakpointhook(*args, **kwargs)
        place = sys._getframe(1)
        self._log.warning(
            f"breakpoint() at {place.f_code.co_filename}:{place.f_lineno} is passed over: standard input is no terminal"
        )
        return None


class InlineInstance:
    """Implements `BackendInstance` on the calling thread."""

    failure: str | None = None
    healthy = True

    def __init__(
        self,
        label: str,
        name: str,
        program: InlineProgram,
        args: dict[str, str],
        output_names: tuple[str, ...],
        check: OutputCheck,
        log: Log,
    ) -> None:
        """Raises BackendError when the model can't be imported or initialized."""
        self.health_changed: Callable[[], None] = _nothing
        self._label = label
        self._program = program
        self._output_names = output_names
        self._check = check
        self._log = log
        try:
            self._model = Model(name, program.module())
            self._model.initialize(args)
        except ModelFailure as failure:
            raise BackendError(f"{label}: {failure}") from None

    def start(self, batch: Batch) -> None:
        requests = self._requests(batch.requests)
        batch.inputs_ready()
        try:
            results = self._model.execute(requests)
        except ModelFailure as failure:
            raise BackendError(str(failure)) from None
        finally:
            self._program.runtime.remove_dropped()
        batch.outputs_ready()
        for request, result in zip(batch.requests, results, strict=True):
            self._answer(batch, request, result)

    def close(self) -> None:
        try:
            self._model.finalize()
        except ModelFailure as failure:
            self._log.error(f"{self._label}: {failure}")

    def _requests(self, requests: Sequence[InferRequest]) -> list[InferenceRequest]:
        packer = _InlinePacker()
        groups = groups_of(packer, requests)
        meta = (0, facts_of(requests), requested_of(requests), groups, ())
        payload = bytearray().join(packer.parts)
        return _InlineReader(requests, packer.memories, self._output_names).read(meta, payload)

    def _answer(self, batch: Batch, request: InferRequest, result: Any) -> None:
        error = result.error() if type(result) is InferenceResponse else result
        if error is not None:
            batch.fail(request, reported_error(error.code(), error.message()))
            return
        try:
            outputs = self._outputs(request, result.output_tensors())
        except CharoniaError as problem:
            batch.fail(request, problem)
        else:
            batch.respond(request, outputs, result._parameters or NO_PARAMETERS)

    def _outputs(self, request: InferRequest, tensors: Sequence[ModelTensor]) -> list[Tensor]:
        if request.requested_outputs:
            tensors = [tensor for tensor in tensors if tensor._name in request.requested_outputs]
        outputs = []
        for tensor in tensors:
            problem = self._check.problem(tensor._name, tensor._datatype, tensor._shape)
            if problem is not None:
                raise BackendError(problem)
            made = _output(tensor)
            if self._check.widenings:
                wanted = self._check.widenings.get((made.name, made.datatype))
                made = made if wanted is None else widened(made, wanted)
            outputs.append(made)
        if len({tensor.name for tensor in outputs}) != len(outputs):
            names = ", ".join(tensor.name for tensor in outputs)
            raise BackendError(f"{self._label} returned an output more than once: {names}")
        return outputs


def complete_inline(context: ModelContext, files: ModelFiles, config_json: str) -> str:
    """Run auto_complete_config in a namespace of its own. Raises ModelFailure."""
    events = ModelEvents(context.server.log, context.server.custom_metrics)
    program = InlineProgram(files, events, context.server.log)
    try:
        return Model(context.name, program.module()).complete(config_json)
    finally:
        program.close()


class InlineRuntime:
    """`Runtime` without a process in between."""

    def __init__(self, model_dir: str, events: ModelEvents) -> None:
        self.model_dir = model_dir
        self._events = events
        self._removals: deque[tuple[Any, ...]] = deque()

    def send(self, request: Any, response: Any, final: bool) -> None:
        raise not_yet("a response that execute does not return")

    def infer(self, request: Any, decoupled: bool, sink: Any) -> Any:
        raise not_yet("calling another model")

    def log(self, level: str, message: str, file: str, line: int) -> None:
        self._events.log(level, message, file, line)

    def call(self, operation: str, *arguments: Any) -> Any:
        self.remove_dropped()
        try:
            return self._events.call(operation, arguments)
        except CharoniaError as error:
            raise TritonModelException(str(error)) from None

    def cast(self, operation: str, *arguments: Any) -> None:
        if operation == "metric.remove":
            # This comes out of the garbage collector, maybe while this very thread holds the lock of the metrics.
            self._removals.append(arguments)
        else:
            self._events.casts([(operation, arguments)])

    def remove_dropped(self) -> None:
        """Take away the metrics that the model has dropped."""
        while self._removals:
            self._events.casts([("metric.remove", self._removals.popleft())])


class _InlinePacker(Packer):
    """Copies inputs into memory that the model may write to: existing models change their inputs in place."""

    __slots__ = ("memories",)

    def __init__(self) -> None:
        self._length = 0
        self.parts: list[Any] = []
        self.memories: list[Any] = []

    def _put(self, buffers: list[Any], sizes: list[int], total: int) -> tuple[int, int]:
        if total <= IN_FRAME_BYTES:
            return self._put_in_frame(buffers, total)
        memory = np.empty(total, np.uint8)
        at = 0
        for buffer, size in zip(buffers, sizes, strict=True):
            if size:
                memory[at : at + size] = np.frombuffer(buffer, np.uint8)
            at += size
        self.memories.append(memory)
        return IN_WRITER, len(self.memories) - 1


class _InlineReader(BatchReader):
    """Reads what the packer laid out; the cancel flag is the request's own."""

    def __init__(self, requests: Sequence[InferRequest], memories: list[Any], output_names: Sequence[str]) -> None:
        self.output_names = output_names
        self._requests = requests
        self._memories = memories

    def is_cancelled(self, slot: int) -> bool:
        return self._requests[slot].cancelled

    def placed(self, offset: int, nbytes: int) -> Any:
        return self._memories[offset]


def _output(tensor: ModelTensor) -> Tensor:
    """An output over the model's own array, which the model may use again: not owned."""
    if tensor._datatype == BYTES:
        raw = tensor._serialised()
        return Tensor(tensor._name, BYTES, tensor._shape, HostBuffer(raw, len(raw), owned=True))
    array = tensor._array
    return Tensor(
        tensor._name, tensor._datatype, tensor._shape, HostBuffer(host_bytes(array), array.nbytes, owned=False)
    )


def _has_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # closed
        return False


def _nothing() -> None:
    """Nobody asked to be told."""
