"""The requests that a model's process has not answered to the end, and the responses that it sends for them."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from charonia.backends.base import Batch
from charonia.backends.python.answers import AnswerReader, reschedule
from charonia.backends.python.child import wire
from charonia.backends.python.child.responding import AGAIN, LAST, MORE, WINDOW, drained
from charonia.backends.python.outbox import Outbox
from charonia.backends.python.results import reported_error
from charonia.core.errors import BackendError, CharoniaError, UnavailableError
from charonia.core.request import NO_PARAMETERS, InferRequest
from charonia.core.tensor import Tensor

CANCEL_SLOTS = 65536
_REPORTED = WINDOW // 2  # so many responses are reported as taken at a time


class OpenRequest:
    """One request at the process, known there by `key`.

    Attributes:
        untaken: responses that have come and were not reported as taken; only streams have any.
        is_waiting: somebody will say when there is room for more.
    """

    __slots__ = ("_on_cancel", "batch", "is_waiting", "key", "request", "untaken")

    def __init__(
        self, batch: Batch, request: InferRequest, key: int, on_cancel: "Callable[[OpenRequest], None]"
    ) -> None:
        self.batch = batch
        self.request = request
        self.key = key
        self.untaken = 0
        self.is_waiting = False
        self._on_cancel = on_cancel

    def cancel(self) -> None:
        self._on_cancel(self)


class OpenRequests:
    """Of one process. Batches are begun and ended by the instance's thread, responses come on the supervisor's,
    cancellations and room from any.

    Args:
        flags: a byte for each of CANCEL_SLOTS requests, which the process looks at.
        freed: blocks of outputs that nobody uses any more; the process is told.
    """

    def __init__(self, flags: memoryview, answers: AnswerReader, outbox: Outbox, freed: deque[int]) -> None:
        self._flags = flags
        self._answers = answers
        self._outbox = outbox
        self._freed = freed
        self._lock = threading.Lock()
        self._next = 0
        self._lowest = 0  # no open request has a lower key; looked up seldom
        self._open: dict[int, OpenRequest] = {}  # in the order of their keys
        self._executing = range(0)
        self._gone: CharoniaError | None = None

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, batch: Batch) -> int:
        """Take the requests of a batch in; the key of the first, the others follow.

        Raises:
            UnavailableError: there is no cancel flag for them.
        """
        requests = batch.requests
        first = self._free_keys(len(requests))
        self._next = first + len(requests)
        self._executing = range(first, self._next)
        for key, request in enumerate(requests, first):
            self._flags[key % CANCEL_SLOTS] = 0
            entry = self._open[key] = OpenRequest(batch, request, key, self._cancel)
            request.on_cancel(entry.cancel)
        return first

    def requests(self) -> list[InferRequest]:
        """All of them, at this moment."""
        return [entry.request for entry in list(self._open.values())]

    def executed(self, answered: Sequence[int]) -> None:
        """The batch that was begun last has been executed; these of its requests are settled, by index."""
        keys = self._executing
        for index in answered:  # as `_end`, which costs as much again as this loop
            entry = self._open.pop(keys[index], None)
            if entry is not None:
                entry.request.on_cancel(None)
        with self._lock:
            self._executing = range(0)
            gone = self._gone
        if gone is not None:
            self.fail_all(gone)

    def fail_all(self, error: CharoniaError) -> None:
        """The process has gone: what is still open fails, but for a batch that is executing: its answer may be there
        to be read."""
        with self._lock:
            self._gone = error
            failed = [key for key in self._open if key not in self._executing]
        entries = [entry for entry in map(self._end, failed) if entry is not None]
        for entry in entries:
            entry.batch.fail(entry.request, error)
        for batch in {id(entry.batch): entry.batch for entry in entries}.values():
            batch.flush()

    def _end(self, key: int) -> OpenRequest | None:
        entry = self._open.pop(key, None)
        if entry is not None:
            entry.request.on_cancel(None)
        return entry

    def deliver(self, items: Sequence[Any], payload: bytearray) -> list[Batch]:
        """Hand on the responses of a RESPONSES frame; the batches that are to be flushed."""
        touched = []
        taken: list[tuple[int, int]] = []
        for key, follows, failure, parameters, columns, start in items:
            outputs = self._outputs(columns, payload, start)
            entry = self._open.get(key)
            if entry is None:
                continue  # it was failed meanwhile; shared memory goes back with the outputs
            if follows != MORE:
                self._end(key)
            if failure is not None:
                entry.batch.fail(entry.request, reported_error(*failure), follows == LAST)
            elif follows == AGAIN:
                entry.batch.flush()  # what was sent comes before what the next turn sends
                reschedule(entry.batch, entry.request)
            elif columns is None:
                entry.batch.end(entry.request)
            else:
                _respond(entry, outputs, parameters, follows == LAST)
            touched.append(entry.batch)
            if follows == MORE:
                self._count(entry, taken)
        self._report(taken)
        return touched

    def _outputs(self, columns: Any, payload: bytearray, start: int) -> Sequence[Tensor] | CharoniaError:
        """The outputs of one response, or what is wrong with them: further responses lie in the same frame."""
        try:
            problem, outputs = self._answers.response(columns or (), payload, start)
        except Exception as error:
            return _known(error)
        return outputs if problem is None else BackendError(problem)

    def _count(self, entry: OpenRequest, taken: list[tuple[int, int]]) -> None:
        """One more response has come; report those that have, if there is room for others."""
        with self._lock:
            entry.untaken += 1
            if entry.untaken < _REPORTED or entry.is_waiting:
                return
            flow = entry.request.flow
            if flow is None or flow.has_room():
                taken.append((entry.key, entry.untaken))
                entry.untaken = 0
                return
            entry.is_waiting = True
        flow.on_room(partial(self._room, entry))

    def _room(self, entry: OpenRequest) -> None:
        """The reader has made room, on a thread of its own."""
        with self._lock:
            count, entry.untaken = entry.untaken, 0
            entry.is_waiting = False
        self._outbox.post(wire.ROOM, 0, ([(entry.key, count)], ()))

    def _report(self, taken: list[tuple[int, int]]) -> None:
        freed = drained(self._freed)
        if taken or freed:
            self._outbox.post(wire.ROOM, 0, (taken, freed))

    def _cancel(self, entry: OpenRequest) -> None:
        if self._open.get(entry.key) is entry:
            self._flags[entry.key % CANCEL_SLOTS] = 1
            if entry.untaken or entry.is_waiting:  # it may be waiting for room
                self._outbox.post(wire.ROOM, 0, ([(entry.key, 0)], ()))

    def _free_keys(self, count: int) -> int:
        """The first of `count` keys in a row whose flags no open request has."""
        first = self._next
        if first + count - self._lowest <= CANCEL_SLOTS:
            return first
        keys = list(self._open)  # at once: requests end meanwhile
        self._lowest = min(keys, default=first)
        if first + count - self._lowest <= CANCEL_SLOTS:
            return first
        used = {key % CANCEL_SLOTS for key in keys}
        for first in range(self._next, self._next + CANCEL_SLOTS):
            if not any((first + index) % CANCEL_SLOTS in used for index in range(count)):
                return first
        raise UnavailableError(f"{len(used)} requests are open at one instance, so there is no room for {count} more")


def _respond(entry: OpenRequest, outputs: Sequence[Tensor] | CharoniaError, parameters: Any, final: bool) -> None:
    try:
        if isinstance(outputs, CharoniaError):
            raise outputs
        entry.batch.respond(entry.request, outputs, parameters or NO_PARAMETERS, final)
    except Exception as error:
        entry.batch.fail(entry.request, _known(error), final)


def _known(error: Exception) -> CharoniaError:
    return error if isinstance(error, CharoniaError) else BackendError(f"{type(error).__name__}: {error}")
