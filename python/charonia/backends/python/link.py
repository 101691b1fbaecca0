"""The server's side of the link to a model's process: a batch out, its answer in.

One frame each way for a batch (layout: `child/batch.py`). The instance's own thread writes and then reads, so a plain
batch costs one hand-off to the process and one back, and no other thread is woken.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from charonia.backends.base import Batch
from charonia.backends.python.child import wire
from charonia.backends.python.child.arena import Arena, Block, Region
from charonia.backends.python.child.columns import (
    IN_FRAME,
    IN_READER,
    Packer,
    shapes_of,
    spans,
    total_bytes,
)
from charonia.backends.python.encoding import facts_of, groups_of, requested_of
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.results import reported_error
from charonia.core.errors import BackendError, CharoniaError, UnavailableError
from charonia.core.request import NO_PARAMETERS, InferRequest
from charonia.core.tensor import HostBuffer, Tensor

CANCEL_SLOTS = 65536

Row = tuple[Tensor, ...]


class Link:
    """Exchanges batches with one process. For the instance's thread only; cancellations come from any thread.

    Args:
        inputs: shared memory that this side writes; its first CANCEL_SLOTS bytes are cancel flags.
        outputs: shared memory that the process writes.
        take_casts: receives what the model told the server during a batch (metrics).
    """

    def __init__(
        self,
        work: wire.Channel,
        inputs: Arena,
        outputs: Region,
        check: OutputCheck,
        take_casts: Callable[[list[Any]], None],
    ) -> None:
        self._work = work
        self._inputs = inputs
        self._outputs = outputs
        self._check = check
        self._take_casts = take_casts
        self._flags = memoryview(inputs.region.view)[:CANCEL_SLOTS]
        self._slot = 0
        self._correlation = 0
        self._input_holds: dict[int, int] = {}  # input block → how many still need it: the process, lent outputs
        self._dropped_inputs: deque[int] = deque()  # lent outputs that have gone, from any thread
        self._dropped_outputs: deque[int] = deque()

    def exchange(self, batch: Batch) -> None:
        """Execute a batch and answer every request of it.

        Raises:
            LinkClosed: the process has gone; nothing is answered then.
        """
        requests = batch.requests
        self._free_inputs(_drain(self._dropped_inputs))
        slot = self._watch(requests)
        try:
            self._send(batch, slot)
            frame = self._work.receive()
        finally:
            for request in requests:
                request.on_cancel(None)
        batch.outputs_ready()
        failures, parameters, groups, released, casts = frame.meta
        if casts:
            self._take_casts(casts)
        answers = self._read(requests, failures, groups, frame.payload, released)
        self._free_inputs(released)
        _answer(batch, answers, parameters)

    def _watch(self, requests: Sequence[InferRequest]) -> int:
        """Give each request a cancel flag that the process can see; the number of the first."""
        slot = self._slot
        if slot + len(requests) > CANCEL_SLOTS:
            slot = 0
        self._slot = slot + len(requests)
        self._flags[slot : self._slot] = bytes(len(requests))
        for index, request in enumerate(requests, slot):
            request.on_cancel(partial(self._flags.__setitem__, index, 1))
        return slot

    def _send(self, batch: Batch, slot: int) -> None:
        packer = Packer(self._inputs)
        try:
            groups = groups_of(packer, batch.requests)
        except OSError as error:
            packer.undo()
            raise UnavailableError(
                f"no shared memory for the inputs of {len(batch.requests)} requests: {error}"
            ) from None
        for offset in packer.placed:
            self._input_holds[offset] = 1
        requested = requested_of(batch.requests)
        meta = (slot, facts_of(batch.requests), requested, groups, _drain(self._dropped_outputs))
        self._correlation = (self._correlation + 1) & 0xFFFFFFFF
        batch.inputs_ready()
        self._work.send(wire.BATCH, self._correlation, meta, packer.parts)

    def _free_inputs(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._input_holds[offset] -= 1
            if not self._input_holds[offset]:
                del self._input_holds[offset]
                self._inputs.free(offset)

    def _read(
        self, requests: Sequence[InferRequest], failures: Any, groups: Any, payload: bytearray, released: Sequence[int]
    ) -> "list[tuple[InferRequest, Row | CharoniaError]]":
        if type(failures) is str:
            return [(request, BackendError(failures)) for request in requests]
        answers: list[tuple[InferRequest, Row | CharoniaError]] = [
            (requests[index], reported_error(code, text)) for index, (code, text) in failures.items()
        ]
        for indices, columns in groups:
            count = len(indices)
            problems = self._problems(columns, count)
            rows: Any = [()] * count
            if columns:
                tensors = [self._tensors(column, count, payload, released) for column in columns]
                rows = zip(*tensors, strict=True)
            for number, (index, row) in enumerate(zip(indices, rows, strict=True)):
                problem = problems.get(number)
                answers.append((requests[index], row if problem is None else BackendError(problem)))
        return answers

    def _problems(self, columns: Any, count: int) -> dict[int, str]:
        """What is wrong with the outputs of a group, by position in it."""
        found: dict[int, str] = {}
        names = [column[0] for column in columns]
        if len(set(names)) != len(names):
            return dict.fromkeys(range(count), f"the model returned an output more than once: {', '.join(names)}")
        for name, datatype, shapes, *_ in columns:
            if type(shapes) is tuple:
                problem = self._check.problem(name, datatype, shapes)
                if problem is not None:
                    return dict.fromkeys(range(count), problem)
                continue
            for number, shape in enumerate(shapes):
                problem = self._check.problem(name, datatype, shape)
                if problem is not None:
                    found.setdefault(number, problem)
        return found

    def _tensors(self, column: Any, count: int, payload: bytearray, released: Sequence[int]) -> list[Tensor]:
        name, datatype = column[:2]
        memory, owned = self._memory(column, count, payload, released)
        return [
            Tensor(name, datatype, shape, HostBuffer(memory[start:end], end - start, owned=owned))
            for shape, (start, end) in zip(shapes_of(column, count), spans(column, count), strict=True)
        ]

    def _memory(self, column: Any, count: int, payload: bytearray, released: Sequence[int]) -> tuple[Any, bool]:
        """Memory in which the column's own offsets count, and whether nobody will write to it any more."""
        _, _, _, _, where, offset = column
        if where == IN_FRAME:
            return payload, True
        nbytes = total_bytes(column, count)
        if where == IN_READER:
            block = self._block_of(offset)
            self._input_holds[block] += 1
            lent = Block(self._inputs.region, offset, nbytes, self._dropped_inputs, block)
            return _Shifted(np.asarray(lent), offset), block in released
        lent = Block(self._outputs, offset, nbytes, self._dropped_outputs)
        return _Shifted(np.asarray(lent), offset), True

    def _block_of(self, offset: int) -> int:
        """The start of the input block that `offset` lies in."""
        return max(start for start in self._input_holds if start <= offset)


class _Shifted:
    """An array that is sliced by offsets of the whole shared memory."""

    __slots__ = ("_array", "_start")

    def __init__(self, array: Any, start: int) -> None:
        self._array = array
        self._start = start

    def __getitem__(self, span: slice) -> Any:
        return self._array[span.start - self._start : span.stop - self._start]


def _drain(offsets: deque[int]) -> list[int]:
    drained = []
    while offsets:
        drained.append(offsets.popleft())
    return drained


def _answer(batch: Batch, answers: "Sequence[tuple[InferRequest, Row | CharoniaError]]", parameters: Any) -> None:
    if parameters:
        by_request = {id(batch.requests[index]): values for index, values in parameters.items()}
    for request, answer in answers:
        if isinstance(answer, CharoniaError):
            batch.fail(request, answer)
        else:
            batch.respond(request, answer, by_request.get(id(request), NO_PARAMETERS) if parameters else NO_PARAMETERS)
