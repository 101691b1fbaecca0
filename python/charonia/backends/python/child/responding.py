"""Responses that leave the model's process by themselves: what response senders send, in RESPONSES frames.

RESPONSES  meta (items, released)
           items: (key, what follows, failure, parameters, columns, start) for each response, in the order of sending:
           the request's key; MORE, LAST or AGAIN; None or (code, text); None or {…}; None for a bare end, else
           `columns` of one response, whose places in the frame count from `start`
           released: input blocks that the model no longer needs
ROOM       the server has taken that many responses of those requests, and needs those output blocks no longer
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import deque
from typing import Any
from weakref import WeakValueDictionary

from . import wire
from .arena import Arena
from .batch import column_of
from .columns import Packer
from .errors import TritonError, TritonModelException
from .responses import InferenceResponse
from .senders import InferenceResponseSender

MORE = 0
LAST = 1  # nothing follows
AGAIN = 2  # the request is to be rescheduled

# The server says what has been taken when it is half as many, so a reader that keeps up never makes a model wait.
WINDOW = 32
# On an event loop others wait too: there more may be ahead, and the wait has an end.
_LOOP_WINDOW = 1024
_LOOP_WAIT_S = 10.0


class Responses:
    """Packs responses and sends them, from any thread, in frames of as many as are waiting.

    Args:
        released: input blocks to report.
    """

    def __init__(self, events: wire.Channel, outputs: Arena, released: deque[int]) -> None:
        self._events = events
        self._outputs = outputs
        self._released = released
        self._waiting: deque[Any] = deque()
        self._sending = threading.Lock()
        self._room = threading.Condition()
        self._ahead: WeakValueDictionary[int, InferenceResponseSender] = WeakValueDictionary()
        self._closed = False

    def send(self, sender: InferenceResponseSender, response: InferenceResponse | None, final: bool) -> None:
        item = self._packed(sender._key, response, LAST if final else MORE)
        if not final:
            with self._room:
                if not sender._ahead:
                    self._ahead[sender._key] = sender
                sender._ahead += 1
        self._post(item)

    def fail(self, key: int, error: TritonError) -> None:
        """End a request with an error. May be called in the midst of anything: another thread sends it."""
        self._waiting.append((key, LAST, (error.code(), error.message()), None, None, b""))
        try:
            _thread.start_new_thread(self._flush, ())
        except RuntimeError:  # the interpreter is ending, and with it every request
            pass

    def reschedule(self, key: int) -> None:
        self._post((key, AGAIN, None, None, None, b""))

    def settle(self) -> None:
        """Return when all is sent, also what `fail` was given."""
        with self._sending:
            self._send_waiting()

    def wait_for_room(self, sender: InferenceResponseSender) -> None:
        """Raises TritonModelException: on an event loop, after some seconds."""
        if sender._ahead < WINDOW:
            return
        on_loop = _is_on_loop()
        limit, timeout_s = (_LOOP_WINDOW, _LOOP_WAIT_S) if on_loop else (WINDOW, None)

        def may_go() -> bool:
            return sender._ahead < limit or self._closed or sender.is_cancelled()

        with self._room:
            if not self._room.wait_for(may_go, timeout_s):
                raise TritonModelException(
                    f"Unable to send response: the client has not taken the last {sender._ahead} responses, and "
                    "waiting for it would hold the event loop up; send from a thread, which may wait"
                )

    def taken(self, counts: list[tuple[int, int]]) -> None:
        """The server has taken so many responses of each of these requests; 0 where one was cancelled."""
        with self._room:
            for key, count in counts:
                sender = self._ahead.get(key)
                if sender is not None:
                    sender._ahead -= count
            self._room.notify_all()

    def close(self) -> None:
        """The server has gone: nobody need wait for it."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def _packed(self, key: int, response: InferenceResponse | None, follows: int) -> Any:
        if response is None:
            return key, follows, None, None, None, b""
        if response._error is not None:
            error = response._error
            return key, follows, (error.code(), error.message()), response._parameters, None, b""
        packer = Packer(self._outputs)
        try:
            columns = [column_of(packer, (tensor,), {}) for tensor in response._outputs]
        except Exception as error:
            packer.undo()
            raise TritonModelException(
                f"Unable to send response: its outputs can't be sent: {type(error).__name__}: {error}"
            ) from None
        return key, follows, None, response._parameters, columns, b"".join(packer.parts)

    def _post(self, item: Any) -> None:
        """Whoever is sending sends this too; so no thread waits for another, and small responses share a frame."""
        self._waiting.append(item)
        self._flush()

    def _flush(self) -> None:
        while self._waiting and self._sending.acquire(blocking=False):
            try:
                self._send_waiting()
            finally:
                self._sending.release()

    def _send_waiting(self) -> None:
        items: list[Any] = []
        payload: list[Any] = []
        start = 0
        while self._waiting:
            *item, body = self._waiting.popleft()
            items.append((*item, start))
            payload.append(body)
            start += len(body)
        try:
            if items:
                self._events.send(wire.RESPONSES, 0, (items, drained(self._released)), payload)
        except wire.LinkClosed:
            self.close()


def drained(offsets: deque[int]) -> list[int]:
    """What is in a deque that any thread appends to."""
    taken = []
    while offsets:
        taken.append(offsets.popleft())
    return taken


def _is_on_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
