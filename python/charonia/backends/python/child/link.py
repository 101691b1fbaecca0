"""The API's way from a model's process to the server: the events channel. Any thread may use it."""

from __future__ import annotations

import threading
from collections import deque
from itertools import count
from typing import Any, Callable

from . import wire
from .arena import Arena, Region
from .calling import Calls
from .errors import ModelFailure, TritonModelException
from .messages import InferenceRequest
from .responding import Responses
from .responses import InferenceResponse
from .runtime import OutgoingCall, ResponseSink
from .senders import InferenceResponseSender, dropped_error

_LONG = "model."
_NOBODY = 0  # the number of a call whose answer nobody waits for


class ChildRuntime:
    """See `runtime.Runtime`.

    What the server says on this channel is read by a thread that waits for something of it, until more than one wait,
    or something comes that nobody waits for: from then on a thread always listens. Most models need none.

    Attributes:
        released: input blocks to report with responses.
        is_unloading: what the model lets go of now goes with the model.
    """

    def __init__(
        self, work: wire.Channel, events: wire.Channel, outputs: Arena, inputs: Region, replies: Region
    ) -> None:
        self.model_dir = ""
        self.model_name = ""
        self.is_unloading = False
        self.decoupled = False
        self.released: deque[int] = deque()
        self._events = events
        self._outputs = outputs
        self._responses = Responses(events, outputs, self.released)
        self._calls = Calls(work, events, outputs, inputs, replies, self._attend)
        self._casts: deque[Any] = deque()
        self._unsettled = False  # casts were sent, and maybe not taken yet
        self._reading = threading.Lock()
        self._needs_listener = False
        self._listener: threading.Thread | None = None
        self._numbers = count(1)
        self._answers: dict[int, _Answer] = {}
        self._is_ready: Callable[[], bool] | None = None

    def send(self, sender: InferenceResponseSender, response: InferenceResponse | None, final: bool) -> None:
        self._listen()
        self._responses.send(sender, response, final)

    def wait_for_room(self, sender: InferenceResponseSender) -> None:
        self._responses.wait_for_room(sender)

    def dropped(self, sender: InferenceResponseSender) -> None:
        self._responses.fail(sender._key, dropped_error(sender, self.is_unloading))

    def reschedule(self, sender: InferenceResponseSender) -> None:
        """What was sent comes before it."""
        if sender._close():
            self._responses.reschedule(sender._key)

    def infer(self, request: InferenceRequest, decoupled: bool, sink: ResponseSink) -> OutgoingCall:
        if not sink.blocks:
            self._listen()
        return self._calls.begin(request, decoupled, sink)

    def answer_readiness(self, is_ready: Callable[[], bool]) -> None:
        """The server may ask for this from now on, at any time. It raises ModelFailure."""
        self._is_ready = is_ready
        self._listen()

    def executing(self, is_executing: bool) -> None:
        """Whether the calling thread executes a batch from now on."""
        self._calls.batch_thread = threading.get_ident() if is_executing else None

    def log(self, level: str, message: str, file: str, line: int) -> None:
        try:
            self._events.send(wire.LOG, 0, (level, message, file, line))
        except wire.LinkClosed:
            pass

    def call(self, operation: str, *arguments: Any) -> Any:
        if operation.startswith(_LONG):
            self._listen()  # so that others can ask meanwhile
        try:
            answer = self._ask(operation, arguments)
        except wire.LinkClosed:
            answer = None
        if answer is None:
            raise TritonModelException(f"{operation}: the server has gone")
        if answer.kind == wire.FAILED:
            raise TritonModelException(answer.meta)
        return answer.meta

    def settle(self) -> None:
        """Return when the server has taken all that was logged, sent and cast so far."""
        self._responses.settle()
        try:
            self.call("settle")
        except TritonModelException:  # the server has gone
            pass

    def settle_casts(self) -> None:
        """Return when the server has taken all that was cast so far; at once when nothing was."""
        if self._unsettled or self._casts:
            self.settle()

    def cast(self, operation: str, *arguments: Any) -> None:
        self._casts.append((operation, arguments))
        # A removal may come out of the garbage collector, in the middle of a send: it waits for the next occasion then.
        if operation != "metric.remove" or not self._events.sending:
            try:
                self._flush()
            except wire.LinkClosed:
                pass

    def _flush(self) -> None:
        casts = []
        while self._casts:
            casts.append(self._casts.popleft())
        if casts:
            self._unsettled = True
            self._events.send(wire.CAST, 0, casts)

    def _ask(self, operation: str, arguments: Any) -> wire.Frame | None:
        """The answer, None when the server has gone. Raises LinkClosed: as well."""
        number = next(self._numbers) & 0xFFFFFFFF
        answer = self._answers[number] = _Answer()
        try:
            with self._reading:
                self._flush()
                self._unsettled = False
                self._events.send(wire.CALL, number, (operation, arguments))
                while not (self._needs_listener or answer.frame):
                    self._take(self._events.receive())
            answer.arrived.wait()
            return answer.frame
        finally:
            del self._answers[number]

    def _attend(self, is_done: Callable[[], bool]) -> None:
        """See `OutgoingCall`. A second thread that waits can't rely on the first, which stops when it has its own."""
        if self._needs_listener or not self._reading.acquire(blocking=False):
            self._listen()
            return
        try:
            while not (self._needs_listener or is_done()):
                self._take(self._events.receive())
        except wire.LinkClosed:
            self._close()
        finally:
            self._reading.release()

    def _listen(self) -> None:
        """From now on a thread takes what the server says."""
        if self._listener is not None:
            return
        self._needs_listener = True
        if not self._reading.acquire(blocking=False):
            self._wake_reader()
            self._reading.acquire()
        try:
            if self._listener is None:
                self._listener = threading.Thread(target=self._run, name="charonia listener", daemon=True)
                self._listener.start()
        finally:
            self._reading.release()

    def _wake_reader(self) -> None:
        """Have the server say something."""
        try:
            self._events.send(wire.CALL, _NOBODY, ("settle", ()))
        except wire.LinkClosed:
            pass

    def _run(self) -> None:
        try:
            while True:
                self._take(self._events.receive())
        except wire.LinkClosed:
            self._close()

    def _tell_readiness(self) -> None:
        assert self._is_ready is not None
        try:
            answer = (self._is_ready(), "")
        except ModelFailure as failure:
            answer = (False, str(failure))
        try:
            self._events.send(wire.READY, 0, answer)
        except wire.LinkClosed:
            pass

    def _close(self) -> None:
        """The server has gone: whoever waits for it need not."""
        self._responses.close()
        self._calls.close()
        for answer in list(self._answers.values()):
            answer.arrived.set()

    def _take(self, frame: wire.Frame) -> None:
        if frame.kind == wire.ROOM:
            counts, freed = frame.meta
            for offset in freed:
                self._outputs.free(offset)
            self._responses.taken(counts)
        elif frame.kind == wire.REPLIES:
            self._calls.answered(frame)
        elif frame.kind == wire.READY:  # the model's code may take its time, and others may be waiting
            threading.Thread(target=self._tell_readiness, name="charonia is_ready", daemon=True).start()
        elif frame.kind in (wire.DONE, wire.FAILED):
            answer = self._answers.get(frame.correlation)
            if answer is not None:
                answer.frame = frame
                answer.arrived.set()


class _Answer:
    """What a call waits for; `frame` stays None when the server has gone."""

    __slots__ = ("arrived", "frame")

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.frame: wire.Frame | None = None
