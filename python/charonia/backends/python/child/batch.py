"""A batch in the model's process: frame → requests, what became of them → frame.

BATCH  meta (key, facts, requested, groups, released, callers)
       key: of the first request, the others follow; facts: a tuple for each request; requested: one tuple of output
       names (() for all), or a list of them; groups: (indices or None for all, columns);
       released: output blocks that the server no longer needs; callers: the models that wait for these requests
DONE   meta (failures, parameters, groups, released, rescheduled)
       failures: text for the whole batch, or {index: (code, text)}; parameters: {index: {…}};
       released: input blocks that the model no longer needs; rescheduled: indices
       What is in none of them was answered by a response sender, or will be.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from .arena import Arena, Block, Region
from .columns import IN_FRAME, IN_FRAME_BYTES, IN_READER, ON_DEVICE, Packer, arrays, shapes_of, spans, total_bytes
from .datatypes import BYTES
from .device_tensor import DeviceTensor
from .devices import Opened
from .errors import TritonError
from .messages import InferenceRequest
from .responses import InferenceResponse
from .senders import Fate
from .tensor import Tensor

_CANCEL_SLOTS = 65536  # also the size of the flags at the start of the shared memory for inputs


class OutputNames:
    """Which outputs a request of one model gets.

    Args:
        every: of the model, as configured.
        kept: those that the server takes for itself, whatever a request asks for: the state of its sequence.
    """

    __slots__ = ("_every", "_kept")

    def __init__(self, every: Sequence[str] = (), kept: Sequence[str] = ()) -> None:
        self._every = every
        self._kept = kept

    def of(self, requested: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """(those it asks for, all where it names none; those of the model that need not be sent). A name that is not
        the model's is in neither: it is to be told, not to be taken for one that nobody wants."""
        if not requested:
            return self._every, ()
        return requested, [name for name in self._every if name not in requested and name not in self._kept]


class BatchReader:
    """Makes requests from frames.

    Args:
        inputs: the shared memory that the server writes; it starts with one cancel flag for each slot.
        released: takes the offset of each block whose last array has gone.
    """

    def __init__(self, inputs: Region, released: deque[int]) -> None:
        self.output_names = OutputNames()
        self.request_class = InferenceRequest  # the runtime's own
        self._region = inputs
        self._released = released

    def read(self, meta: Any, payload: bytearray) -> list[InferenceRequest]:
        key, facts, requested, groups = meta[:4]
        flag = self.is_cancelled
        rows: list[Any] = [()] * len(facts)
        for indices, columns in groups:
            count = len(facts) if indices is None else len(indices)
            tensors = [self.tensors(column, count, payload) for column in columns]
            for index, row in zip(range(count) if indices is None else indices, zip(*tensors)):
                rows[index] = row
        make = self.request_class._received
        names_of = self.output_names.of
        names = [names_of(requested)] * len(facts) if type(requested) is tuple else map(names_of, requested)
        return [
            make(fact, list(row), wanted, unwanted, key + index, flag)
            for index, (fact, row, (wanted, unwanted)) in enumerate(zip(facts, rows, names))
        ]

    def is_cancelled(self, key: int) -> bool:
        return bool(self._region.view[key % _CANCEL_SLOTS])

    def placed(self, offset: int, nbytes: int) -> Any:
        """The memory of a column that did not come in the frame."""
        return np.asarray(Block(self._region, offset, nbytes, self._released))

    def on_device(self, entries: Any, sizes: list[int]) -> list[Any]:
        """The memories of a column that lies on devices."""
        return [Opened(handle, nbytes, self._released, key) for (key, handle), nbytes in zip(entries, sizes)]

    def tensors(self, column: Any, count: int, payload: bytearray) -> list[Tensor]:
        """Those of one column."""
        name, datatype, shapes, sizes, where, offset = column
        memory: Any = payload
        if where == ON_DEVICE:
            return [DeviceTensor(name, datatype, *parts) for parts in zip(shapes, self.on_device(offset, sizes))]
        if where != IN_FRAME:
            memory, offset = self.placed(offset, total_bytes(column, count)), 0
        make = Tensor._of
        if datatype == BYTES:
            view = memoryview(memory)
            return [
                make(name, BYTES, shape, None, view[start:end])
                for shape, (start, end) in zip(shapes_of(column, count), spans(sizes, count, offset))
            ]
        return [make(name, datatype, array.shape, array) for array in arrays(column, count, memory, offset)]


class BatchWriter:
    """Makes the answer's meta and payload from results."""

    def __init__(self, outputs: Arena, inputs: Region) -> None:
        self._arena = outputs
        self._inputs = inputs

    def write(self, requests: list[InferenceRequest], results: list[Any]) -> tuple[Any, Any, list[Any], list[Any]]:
        """(failures, parameters, groups, payload). A result whose outputs can't be sent fails alone; those that are no
        InferenceResponse and no TritonError are passed over."""
        failures: dict[int, Any] = {}
        parameters: dict[int, Any] = {}
        groups = self._group(requests, results, failures, parameters)
        packer = OutputPacker(self._arena, self._inputs)
        sources = _string_inputs(requests)
        packed = []
        for rows in groups.values():
            try:
                columns = [column_of(packer, tensors, sources) for tensors in zip(*rows.values())]
            except Exception as error:
                text = f"the outputs can't be sent: {type(error).__name__}: {error}"
                failures.update(dict.fromkeys(rows, (TritonError.INTERNAL, text)))
                continue
            packed.append((list(rows), columns))
        return failures, parameters, packed, packer.parts

    def _group(
        self, requests: list[InferenceRequest], results: list[Any], failures: Any, parameters: Any
    ) -> dict[Any, dict[int, list[Tensor]]]:
        """Results with the same output names and datatypes, all on the host or all on devices, by index."""
        groups: dict[Any, dict[int, list[Tensor]]] = {}
        for index, result in enumerate(results):
            error = result._error if type(result) is InferenceResponse else result
            if type(error) is Fate:
                continue
            if error is not None:
                failures[index] = (error.code(), error.message())
                continue
            if result._parameters:
                parameters[index] = result._parameters
            tensors = result._outputs
            unwanted = requests[index]._unwanted
            if unwanted:
                tensors = [tensor for tensor in tensors if tensor._name not in unwanted]
            key = tuple([(tensor._name, tensor._datatype, tensor._memory is None) for tensor in tensors])
            groups.setdefault(key, {})[index] = tensors
        return groups


class OutputPacker(Packer):
    """Leaves large inputs that come back as outputs where they are: the server wrote them and can read them again."""

    __slots__ = ("_inputs",)

    def __init__(self, arena: Arena, inputs: Region) -> None:
        super().__init__(arena)
        self._inputs = inputs

    def _put(self, buffers: list[Any], sizes: list[int], total: int) -> tuple[int, int]:
        if total > IN_FRAME_BYTES:
            offset = self._place_in_inputs(buffers, sizes)
            if offset is not None:
                return IN_READER, offset
        return super()._put(buffers, sizes, total)

    def _place_in_inputs(self, buffers: list[Any], sizes: list[int]) -> int | None:
        first = expected = None
        mapping = self._inputs.mapping
        for buffer, size in zip(buffers, sizes):
            interface = getattr(buffer, "__array_interface__", None)
            if interface is None:
                return None
            address = interface["data"][0]
            if expected is None:
                first = address - mapping.address
            elif address != expected:
                return None
            expected = address + size
        if first is None or expected is None or first < _CANCEL_SLOTS:
            return None
        return first if expected <= mapping.address + mapping.size else None


def column_of(packer: Packer, tensors: Iterable[Tensor], sources: Mapping[int, Tensor]) -> Any:
    """One output of several responses."""
    tensors = list(tensors)
    first = tensors[0]
    if first._memory is not None:
        memories = [tensor._memory for tensor in tensors]
        shapes = [tensor._shape for tensor in tensors]
        column = packer.device_column(first._name, first._datatype, shapes, memories)
        if column is not None:
            return column
        hosts = [memory.host() for memory in memories]
        return packer.column(first._name, first._datatype, shapes, hosts, [memory.nbytes for memory in memories])
    if first._datatype == BYTES:
        buffers = [tensor._serialised(sources.get(id(tensor._array))) for tensor in tensors]
        sizes = [len(buffer) for buffer in buffers]
    else:
        buffers = [tensor._array for tensor in tensors]
        sizes = [array.nbytes for array in buffers]
    return packer.column(first._name, first._datatype, [tensor._shape for tensor in tensors], buffers, sizes)


def _string_inputs(requests: list[InferenceRequest]) -> dict[int, Tensor]:
    """Decoded BYTES inputs by the identity of their array: an echoed one need not be serialised again."""
    return {
        id(tensor._array): tensor
        for request in requests
        for tensor in request._inputs
        if tensor._datatype == BYTES and tensor._array is not None
    }
