"""The answer of a model's process (a DONE frame, see `child/batch.py`) as replies to the requests of a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from charonia.backends.base import Batch
from charonia.backends.python.child.arena import Block
from charonia.backends.python.child.columns import IN_FRAME, IN_READER, ON_DEVICE, shapes_of, spans, total_bytes
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.results import reported_error
from charonia.backends.python.widening import widened
from charonia.core.errors import BackendError, CharoniaError
from charonia.core.request import NO_PARAMETERS, InferRequest
from charonia.core.tensor import DeviceBuffer, HostBuffer, Tensor

Problems = Mapping[int, str]


def reschedule(batch: Batch, request: InferRequest) -> None:
    """Give a request back to its scheduler; fail it where that is not possible."""
    try:
        batch.reschedule(request)
    except CharoniaError as error:
        batch.fail(request, error)


class AnswerReader:
    """Reads answers in place: outputs are lent from shared memory, or parts of the frame.

    Args:
        lend_input: (offset, nbytes) → memory of an input that comes back unchanged, and its block's key.
        lend_output: (offset, nbytes) → memory that the process wrote; it is given back with its last view.
        open_device: (handle, nbytes, key) → memory on a device.
    """

    def __init__(
        self,
        check: OutputCheck,
        lend_input: Callable[[int, int], tuple[Block, int]],
        lend_output: Callable[[int, int], Block],
        open_device: Callable[[Any, int, int], DeviceBuffer],
    ) -> None:
        self._check = check
        self._lend_input = lend_input
        self._lend_output = lend_output
        self._open = open_device

    def deliver(self, batch: Batch, meta: Any, payload: bytearray) -> Sequence[int]:
        """Answer the requests of a batch that a DONE frame has something for; their indices."""
        failures, parameters, groups, released, rescheduled = meta
        requests = batch.requests
        if type(failures) is str:
            for request in requests:
                batch.fail(request, BackendError(failures))
            return range(len(requests))
        answered = [*failures, *rescheduled]
        for index, (code, text) in failures.items():
            batch.fail(requests[index], reported_error(code, text))
        for index in rescheduled:
            reschedule(batch, requests[index])
        for indices, columns in groups:
            answered += indices
            problems = self._problems(columns, len(indices))
            for number, (index, row) in enumerate(
                zip(indices, self._rows(columns, len(indices), payload, released), strict=True)
            ):
                problem = problems.get(number) if problems else None
                if problem is None and self._check.widenings:
                    problem = self._check.misfit(row)
                if problem is not None:
                    batch.fail(requests[index], BackendError(problem))
                else:
                    batch.respond(requests[index], row, parameters.get(index, NO_PARAMETERS))
        return answered

    def response(self, columns: Any, payload: bytearray, start: int) -> tuple[str | None, Sequence[Tensor]]:
        """(what is wrong with it, the outputs) of one response of a RESPONSES frame.

        Args:
            start: where its own part of the payload begins.
        """
        placed = [(*column[:5], column[5] + start) if column[4] == IN_FRAME else column for column in columns]
        problem = self._problems(placed, 1).get(0)  # first: it finds out what is to be converted
        (outputs,) = self._rows(placed, 1, payload, ())
        return problem or self._check.misfit(outputs), outputs

    def tensors(self, columns: Any, payload: bytearray) -> list[Tensor]:
        """One tensor of each column, as they are: the inputs of a call."""
        return [self._tensors(column, 1, payload, ())[0] for column in columns]

    def _rows(self, columns: Any, count: int, payload: bytearray, released: Sequence[int]) -> Any:
        """The outputs of each response."""
        if not columns:
            return [()] * count
        rows = [self._tensors(column, count, payload, released) for column in columns]
        if self._check.widenings:
            rows = [self._widened(column, tensors) for column, tensors in zip(columns, rows, strict=True)]
        return zip(*rows, strict=True)

    def _widened(self, column: Any, tensors: list[Tensor]) -> list[Tensor]:
        wanted = self._check.widenings.get((column[0], column[1]))
        return tensors if wanted is None else [widened(tensor, wanted) for tensor in tensors]

    def _problems(self, columns: Any, count: int) -> Problems:
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
        name, datatype, shapes, sizes, where, entries = column
        if where == ON_DEVICE:
            return [
                Tensor(name, datatype, shape, self._open(handle, nbytes, key))
                for shape, nbytes, (key, handle) in zip(shapes, sizes, entries, strict=True)
            ]
        memory, at, owned = self._memory(column, count, payload, released)
        if type(shapes) is tuple and type(sizes) is int and sizes:
            return [
                Tensor(name, datatype, shapes, HostBuffer(memory[start : start + sizes], sizes, owned=owned))
                for start in range(at, at + sizes * count, sizes)
            ]
        return [
            Tensor(name, datatype, shape, HostBuffer(memory[start:end], end - start, owned=owned))
            for shape, (start, end) in zip(shapes_of(column, count), spans(sizes, count, at), strict=True)
        ]

    def _memory(self, column: Any, count: int, payload: bytearray, released: Sequence[int]) -> tuple[Any, int, bool]:
        """(memory, where the column starts in it, whether nobody will write to it any more)."""
        where, offset = column[4:]
        if where == IN_FRAME:
            return payload, offset, True
        nbytes = total_bytes(column, count)
        if where == IN_READER:
            memory, block = self._lend_input(offset, nbytes)
            return np.asarray(memory), 0, block in released
        return np.asarray(self._lend_output(offset, nbytes)), 0, True
