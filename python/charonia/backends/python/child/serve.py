"""The main loop of a model's process: frame in, frame out, until the server says so or has gone."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from typing import Any

from . import wire
from .arena import Arena, Region
from .batch import BatchReader, BatchWriter, OutputNames
from .breakpoints import explain_breakpoints
from .calls import CALLERS
from .errors import ModelFailure
from .failures import describe
from .internals import INTERNAL_NAME, build_internals
from .link import ChildRuntime
from .loader import load_model_file
from .messages import InferenceRequest
from .model import Model, is_decoupled, state_outputs
from .pb_utils import MODULE_NAME, build_module
from .responding import drained
from .runtime import ERROR
from .senders import HELD, RESCHEDULED, Outcome

_LAST_MOMENTS_S = 5.0  # for finalize, when the server has gone


class Server:
    """One model instance behind one link."""

    def __init__(self, work: wire.Channel, runtime: ChildRuntime, inputs: Region, outputs: Arena) -> None:
        self._work = work
        self._runtime = runtime
        self._outputs = outputs
        self._released: deque[int] = deque()
        self._inputs = inputs
        self._reader = BatchReader(inputs, self._released)
        self._writer = BatchWriter(outputs, inputs)
        self._name = ""
        self._module: Any = None
        self._model: Model | None = None

    def run(self) -> None:
        """Serve until FINALIZE, or until the server has gone."""
        try:
            while True:
                frame = self._work.receive()
                if frame.kind == wire.BATCH:
                    self._batch(frame)
                elif frame.kind == wire.ENDED:
                    self._sequence_ended(*frame.meta)
                elif not self._control(frame):
                    return
        except wire.LinkClosed:
            self._finalize()

    def _control(self, frame: wire.Frame) -> bool:
        """False when it was the last one."""
        handlers: dict[int, Any] = {
            wire.START: self._start,
            wire.COMPLETE: self._complete,
            wire.INITIALIZE: self._initialize,
            wire.FINALIZE: self._finalize,
        }
        try:
            kind, answer = wire.DONE, handlers[frame.kind](*frame.meta)
        except ModelFailure as failure:
            kind, answer = wire.FAILED, str(failure)
        self._runtime.settle()
        self._work.send(kind, frame.correlation, answer)
        return frame.kind != wire.FINALIZE

    def _start(self, path: str, package: str, folders: list[str], model_dir: str) -> None:
        self._runtime.model_dir = model_dir
        explain_breakpoints()
        api: Any = build_module(self._runtime)
        sys.modules[MODULE_NAME] = api
        sys.modules[INTERNAL_NAME] = build_internals(api, lambda: self._outputs.free_bytes)
        self._module = load_model_file(path, package, folders)

    def _complete(self, name: str, config_json: str) -> str:
        return Model(name, self._module).complete(config_json)

    def _initialize(self, name: str, args: dict[str, str], output_names: tuple[str, ...]) -> tuple[bool, bool]:
        self._runtime.model_name = args["model_name"]
        self._runtime.decoupled = is_decoupled(args)
        if self._runtime.decoupled:
            self._released = self._runtime.released  # what streams may outlive the batch, and the next one be far
        self._reader = BatchReader(self._inputs, self._released)
        self._reader.output_names = OutputNames(output_names, state_outputs(args))
        self._reader.request_class = sys.modules[MODULE_NAME].InferenceRequest
        self._model = Model(name, self._module)
        self._model.initialize(args)
        if self._model.tells_ready:
            self._runtime.answer_readiness(self._model.is_ready)
        return self._model.hears_of_sequences, self._model.tells_ready

    def _sequence_ended(self, correlation_id: int | str, reason: str) -> None:
        assert self._model is not None
        try:
            self._model.sequence_ended(correlation_id, reason)
        except ModelFailure as failure:
            self._runtime.log(ERROR, str(failure), "model.py", 0)

    def _finalize(self) -> None:
        self._runtime.is_unloading = True
        model, self._model = self._model, None
        if model is not None:
            model.finalize()

    def _batch(self, frame: wire.Frame) -> None:
        for offset in frame.meta[4]:
            self._outputs.free(offset)
        failures, parameters, groups, rescheduled, payload = self._answer(frame)
        self._runtime.settle_casts()  # whoever sees the answer sees the metrics too
        meta = (failures, parameters, groups, drained(self._released), rescheduled)
        self._work.send(wire.DONE, frame.correlation, meta, payload)

    def _answer(self, frame: wire.Frame) -> tuple[Any, Any, list[Any], list[int], list[Any]]:
        assert self._model is not None
        try:
            CALLERS.set(frame.meta[5])
            requests = self._reader.read(frame.meta, frame.payload)
            self._runtime.executing(True)
            outcomes = self._model.execute(requests)  # raises nothing
            self._runtime.executing(False)
            failures, parameters, groups, payload = self._writer.write(requests, outcomes)
            return failures, parameters, groups, self._leave(requests, outcomes), payload
        except Exception as error:
            return f"the batch could not be exchanged with the model's process: {describe(error)}", {}, [], [], []

    def _leave(self, requests: list[InferenceRequest], outcomes: list[Outcome]) -> list[int]:
        """See to the requests that are not answered now; the indices of those that the server is to reschedule."""
        rescheduled = []
        for index, outcome in enumerate(outcomes):
            if outcome is HELD:
                requests[index]._make_sender()  # the model may let go of the request without having asked for it
            elif outcome is RESCHEDULED and not self._runtime.decoupled:
                rescheduled.append(index)
            elif outcome is RESCHEDULED:
                self._runtime.reschedule(requests[index].get_response_sender())
        return rescheduled


def watch_parent(work: wire.Channel) -> None:
    """End the process when the server has gone, also in the middle of user code; leaves finalize a few seconds."""

    def wait() -> None:
        poller = select.poll()
        poller.register(work.fileno(), getattr(select, "POLLRDHUP", 0) | select.POLLHUP)
        poller.poll()
        time.sleep(_LAST_MOMENTS_S)
        os._exit(1)

    if hasattr(select, "poll"):
        threading.Thread(target=wait, name="charonia parent watch", daemon=True).start()
