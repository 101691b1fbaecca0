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
from .batch import BatchReader, BatchWriter
from .errors import ModelFailure, TritonModelException, not_yet
from .failures import describe
from .internals import INTERNAL_NAME, build_internals
from .loader import load_model_file
from .model import Model
from .pb_utils import MODULE_NAME, build_module

_LAST_MOMENTS_S = 5.0  # for finalize, when the server has gone


class ChildRuntime:
    """The API's way to the server: the events channel. Any thread may use it."""

    def __init__(self, events: wire.Channel) -> None:
        self.model_dir = ""
        self._events = events
        self._pending: deque[Any] = deque()
        self._unsettled = False  # casts were sent, and maybe not taken yet
        self._calling = threading.Lock()

    def send(self, request: Any, response: Any, final: bool) -> None:
        raise not_yet("a response that execute does not return")

    def infer(self, request: Any, decoupled: bool, sink: Any) -> Any:
        raise not_yet("calling another model")

    def log(self, level: str, message: str, file: str, line: int) -> None:
        try:
            self._events.send(wire.LOG, 0, (level, message, file, line))
        except wire.LinkClosed:
            pass

    def call(self, operation: str, *arguments: Any) -> Any:
        try:
            with self._calling:
                self._flush()
                self._unsettled = False
                self._events.send(wire.CALL, 1, (operation, arguments))
                answer = self._events.receive()
        except wire.LinkClosed:
            raise TritonModelException(f"{operation}: the server has gone") from None
        if answer.kind == wire.FAILED:
            raise TritonModelException(answer.meta)
        return answer.meta

    def settle(self) -> None:
        """Return when the server has taken all that was logged and cast so far."""
        try:
            self.call("settle")
        except TritonModelException:  # the server has gone
            pass

    def settle_casts(self) -> None:
        """Return when the server has taken all that was cast so far; at once when nothing was."""
        if self._unsettled or self._pending:
            self.settle()

    def cast(self, operation: str, *arguments: Any) -> None:
        self._pending.append((operation, arguments))
        # A removal may come out of the garbage collector, in the middle of a send: it waits for the next occasion then.
        if operation != "metric.remove" or not self._events.sending:
            try:
                self._flush()
            except wire.LinkClosed:
                pass

    def _flush(self) -> None:
        casts = []
        while self._pending:
            casts.append(self._pending.popleft())
        if casts:
            self._unsettled = True
            self._events.send(wire.CAST, 0, casts)


class Server:
    """One model instance behind one link."""

    def __init__(self, work: wire.Channel, runtime: ChildRuntime, inputs: Region, outputs: Arena) -> None:
        self._work = work
        self._runtime = runtime
        self._outputs = outputs
        self._released: deque[int] = deque()
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
        api = build_module(self._runtime)
        sys.modules[MODULE_NAME] = api
        sys.modules[INTERNAL_NAME] = build_internals(api, lambda: self._outputs.free_bytes)
        self._module = load_model_file(path, package, folders)

    def _complete(self, name: str, config_json: str) -> str:
        return Model(name, self._module).complete(config_json)

    def _initialize(self, name: str, args: dict[str, str], output_names: tuple[str, ...]) -> None:
        self._reader.output_names = output_names
        self._model = Model(name, self._module)
        self._model.initialize(args)

    def _finalize(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            model.finalize()

    def _batch(self, frame: wire.Frame) -> None:
        for offset in frame.meta[4]:
            self._outputs.free(offset)
        failures, parameters, groups, payload = self._answer(frame)
        released = []
        while self._released:
            released.append(self._released.popleft())
        self._runtime.settle_casts()  # whoever sees the answer sees the metrics too
        meta = (failures, parameters, groups, released)
        self._work.send(wire.DONE, frame.correlation, meta, payload)

    def _answer(self, frame: wire.Frame) -> tuple[Any, Any, list[Any], list[Any]]:
        assert self._model is not None
        try:
            requests = self._reader.read(frame.meta, frame.payload)
            return self._writer.write(requests, self._model.execute(requests))
        except ModelFailure as failure:
            return str(failure), {}, [], []
        except Exception as error:
            return f"the batch could not be exchanged with the model's process: {describe(error)}", {}, [], []


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
