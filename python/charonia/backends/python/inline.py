"""An inline instance: a model in the server's own process, for light models and for debugging."""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from charonia.backends.base import Batch, InstanceSpec, ModelContext
from charonia.backends.python.child.batch import OutputNames
from charonia.backends.python.child.breakpoints import CHOICE
from charonia.backends.python.child.calls import CALLERS
from charonia.backends.python.child.errors import ModelFailure
from charonia.backends.python.child.internals import INTERNAL_NAME, build_internals
from charonia.backends.python.child.model import Model, state_outputs
from charonia.backends.python.child.pb_utils import MODULE_NAME, build_module
from charonia.backends.python.child.responses import InferenceResponse
from charonia.backends.python.child.senders import HELD, RESCHEDULED, SENT, Outcome
from charonia.backends.python.child.tensor import Tensor as ModelTensor
from charonia.backends.python.encoding import callers_of
from charonia.backends.python.events import ModelEvents
from charonia.backends.python.inline_runtime import InlineRuntime, Task, new_runtime
from charonia.backends.python.inline_tensors import read_inputs, take
from charonia.backends.python.launch import ModelFiles
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.readiness import ReadinessQuestion
from charonia.backends.python.results import reported_error
from charonia.backends.python.scope import Scope
from charonia.backends.python.widening import widened
from charonia.core.errors import BackendError, CharoniaError
from charonia.core.log import Log
from charonia.core.request import NO_PARAMETERS, Caller, InferRequest
from charonia.core.tensor import Tensor


class InlineProgram:
    """The code of one model version, loaded once for all its instances."""

    def __init__(self, files: ModelFiles, runtime: InlineRuntime, log: Log) -> None:
        self._files = files
        self.runtime = runtime
        self.api = build_module(runtime)
        self._log = log
        self._lock = threading.Lock()
        self._scope: Scope | None = None
        self._module: Any = None

    def module(self) -> Any:
        """The model's module, imported at the first call. Raises ModelFailure."""
        with self._lock:
            if self._module is None:
                api = self.api
                provided = {MODULE_NAME: api, INTERNAL_NAME: build_internals(api, lambda: 0)}
                # In a terminal it is the builtin itself: a function of ours would be the frame that the debugger shows.
                stop = breakpoint if _has_terminal() or os.environ.get(CHOICE) else self._pass_over_breakpoint
                self._scope = Scope(self._files.folders, provided, stop)
                self._module = self._scope.load(self._files.model_file)
        return self._module

    def close(self) -> None:
        """Forget the code. What it still waits for is cancelled, and metrics that the model made go with it."""
        with self._lock:
            scope, self._scope, self._module = self._scope, None, None
        if scope is not None:
            scope.close()
        self.runtime.close()

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
        spec: InstanceSpec,
        program: InlineProgram,
        args: dict[str, str],
        output_names: tuple[str, ...],
        check: OutputCheck,
        log: Log,
        keeps_devices: bool,
    ) -> None:
        """Raises BackendError when the model can't be imported or initialized."""
        self.health_changed: Callable[[], None] = _nothing
        self._label = label
        self._caller = Caller(spec, is_sure=True)
        self._program = program
        self._output_names = OutputNames(output_names, state_outputs(args))
        self._check = check
        self._log = log
        self._keeps_devices = keeps_devices
        self._turn = threading.Lock()  # one call into the model at a time
        try:
            self._model = Model(spec.name, program.module())
            self._readiness = ReadinessQuestion(label, self._put_readiness, log)
            self._model.initialize(args)
        except ModelFailure as failure:
            raise BackendError(f"{label}: {failure}") from None

    def start(self, batch: Batch) -> None:
        runtime = self._program.runtime
        tasks = [Task(batch, request, self._send) for request in batch.requests]
        request_class = self._program.api.InferenceRequest
        requests = read_inputs(batch.requests, tasks, self._output_names, request_class, self._keeps_devices)
        runtime.open.update(tasks)
        CALLERS.set(callers_of(batch.requests))
        batch.inputs_ready()
        with self._turn:
            runtime.executing.caller = self._caller
            try:
                outcomes = self._model.execute(requests)
            finally:
                runtime.executing.caller = None
        runtime.remove_dropped()
        batch.outputs_ready()
        if HELD in outcomes:
            batch.hold()
            batch.ready_for_next()
        for task, request, outcome in zip(tasks, requests, outcomes, strict=True):
            if outcome is HELD:
                request._make_sender()  # it learns when the model lets go of the request
            else:
                self._settle(task, outcome)

    def close(self) -> None:
        for task in list(self._program.runtime.open):
            task.is_unloading |= task.answer == self._send
        try:
            self._model.finalize()
        except ModelFailure as failure:
            self._log.error(f"{self._label}: {failure}")

    def sequence_ended(self, correlation_id: int | str, reason: str) -> None:
        """See `SequenceListener`."""
        if self._model.hears_of_sequences:
            threading.Thread(target=self._tell_ended, args=(correlation_id, reason), daemon=True).start()

    def _tell_ended(self, correlation_id: int | str, reason: str) -> None:
        try:
            with self._turn:
                self._model.sequence_ended(correlation_id, reason)
        except ModelFailure as failure:
            self._log.error(f"{self._label}: {failure}")

    @property
    def tells_ready(self) -> bool:
        return self._model.tells_ready

    def ask_ready(self) -> "Future[bool]":
        """See `TellsReadiness`."""
        return self._readiness.ask()

    def _put_readiness(self) -> None:
        threading.Thread(target=self._tell_readiness, name=f"{self._model.name} is_ready", daemon=True).start()

    def _tell_readiness(self) -> None:
        try:
            self._readiness.answered(self._model.is_ready())
        except ModelFailure as failure:
            self._readiness.answered(False, str(failure))

    def _settle(self, task: Task, outcome: Outcome) -> None:
        self._program.runtime.open.discard(task)
        if outcome is RESCHEDULED:
            self._reschedule(task)
        elif type(outcome) is InferenceResponse:
            self._answer(task, outcome, True)
        elif outcome is not SENT:
            task.batch.fail(task.request, reported_error(outcome.code(), outcome.message()))

    def _reschedule(self, task: Task) -> None:
        task.rescheduled = True
        try:
            task.batch.reschedule(task.request)
        except CharoniaError as error:
            task.batch.fail(task.request, error)

    def _send(self, task: Task, response: InferenceResponse | None, final: bool) -> None:
        """What a sender sends, on the thread that calls it."""
        if response is None:
            task.batch.end(task.request)
        else:
            self._answer(task, response, final)
        task.batch.flush()

    def _answer(self, task: Task, response: InferenceResponse, final: bool) -> None:
        batch, request, error = task.batch, task.request, response.error()
        if error is not None:
            batch.fail(request, reported_error(error.code(), error.message()), final)
            return
        try:
            outputs = self._outputs(request, response.output_tensors())
        except CharoniaError as problem:
            batch.fail(request, problem, final)
        else:
            batch.respond(request, outputs, response._parameters or NO_PARAMETERS, final)

    def _outputs(self, request: InferRequest, tensors: Sequence[ModelTensor]) -> list[Tensor]:
        _, unwanted = self._output_names.of(request.requested_outputs)
        tensors = [tensor for tensor in tensors if tensor._name not in unwanted]
        outputs = []
        for tensor in tensors:
            problem = self._check.problem(tensor._name, tensor._datatype, tensor._shape)
            if problem is not None:
                raise BackendError(problem)
            made = take(tensor)
            if self._check.widenings:
                wanted = self._check.widenings.get((made.name, made.datatype))
                made = made if wanted is None else widened(made, wanted)
            outputs.append(made)
        misfit = self._check.misfit(outputs)
        if misfit is not None:
            raise BackendError(misfit)
        if len({tensor.name for tensor in outputs}) != len(outputs):
            names = ", ".join(tensor.name for tensor in outputs)
            raise BackendError(f"{self._label} returned an output more than once: {names}")
        return outputs


def new_program(context: ModelContext, files: ModelFiles, events: ModelEvents) -> InlineProgram:
    runtime = new_runtime(context, str(files.version_dir), events)
    return InlineProgram(files, runtime, context.server.log)


def complete_inline(context: ModelContext, files: ModelFiles, config_json: str) -> str:
    """Run auto_complete_config in a namespace of its own. Raises ModelFailure."""
    program = new_program(context, files, ModelEvents(context.server.log, context.server.custom_metrics))
    try:
        return Model(context.name, program.module()).complete(config_json)
    finally:
        program.close()


def _has_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # closed
        return False


def _nothing() -> None:
    """Nobody asked to be told."""
