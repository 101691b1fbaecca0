"""Control inputs: how a model with sequences is told where in its sequence a request stands, and in which sequence."""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from charonia.config.io import wire_name
from charonia.config.schema import ModelSequenceBatching
from charonia.core.datatypes import BYTES
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import SEQUENCE_END, SEQUENCE_START, InferRequest
from charonia.core.tensor import HostBuffer, Tensor, encode_bytes
from charonia.core.text import shown
from charonia.scheduling.queue import request_prefix

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

    Control = ModelSequenceBatching.Control

_KINDS = ModelSequenceBatching.Control
_FALSE_TRUE = {"int32_false_true": ("INT32", "<i"), "fp32_false_true": ("FP32", "<f"), "bool_false_true": ("BOOL", "?")}
_ID_FORMATS = {"UINT64": "<Q", "INT64": "<q", "UINT32": "<I", "INT32": "<i"}
_NOT_READY = -1
_SIGN_BIT = 1 << 63


class SequenceControls:
    """The control inputs of one model. All have the shape [1], with a batch dimension [1, 1]."""

    def __init__(self, config: "ModelConfig") -> None:
        self._shape = (1, 1) if config.max_batch_size > 0 else (1,)
        named = list(_controls(config.sequence_batching))
        self._tensors = {
            state: {name: self._flag(name, control, state) for name, control in named if control.kind != _ID}
            for state in (0, SEQUENCE_START, SEQUENCE_END, SEQUENCE_START | SEQUENCE_END, _NOT_READY)
        }
        ids = [(name, wire_name(control.data_type)) for name, control in named if control.kind == _ID]
        self._id_name, self.id_datatype = ids[0] if ids else ("", "")

    def check(self, request: InferRequest) -> None:
        """
        Raises:
            InvalidArgumentError: the correlation id is not of the datatype that the model reads it in.
        """
        expected = self.id_datatype
        if not expected:
            return
        number = isinstance(request.correlation_id, int)
        if number == (expected == BYTES):
            raise InvalidArgumentError(
                f"{request_prefix(request)}sequence batching control '{self._id_name}' data-type is "
                f"'{'UINT64' if number else BYTES}', but model '{request.model_name}' expects '{expected}': "
                f"correlation id {shown(repr(request.correlation_id))} is a {'number' if number else 'text'}"
            )
        try:
            self._id_bytes(request.correlation_id)
        except struct.error:
            raise InvalidArgumentError(
                f"{request_prefix(request)}correlation id {request.correlation_id} does not fit sequence batching "
                f"control '{self._id_name}' of model '{request.model_name}', whose data-type is '{expected}'"
            ) from None

    def apply(self, request: InferRequest) -> None:
        """Give the request the inputs that say where in its sequence it stands."""
        self._put(request, request.flags & (SEQUENCE_START | SEQUENCE_END), request.correlation_id)

    def apply_not_ready(self, request: InferRequest) -> None:
        """The same for what stands for an empty slot: neither start nor end, not ready, and in no sequence."""
        self._put(request, _NOT_READY, "" if self.id_datatype == BYTES else 0)

    def _put(self, request: InferRequest, state: int, correlation_id: int | str) -> None:
        request.inputs.update(self._tensors[state])
        if self._id_name:
            data = self._id_bytes(correlation_id)
            request.inputs[self._id_name] = self._tensor(self._id_name, self.id_datatype, data)

    def _id_bytes(self, correlation_id: int | str) -> bytes:
        """Raises struct.error for a number that does not fit."""
        if isinstance(correlation_id, str):
            return encode_bytes((correlation_id.encode(),))
        # Clients send a negative id as the unsigned number of the same 64 bits.
        if self.id_datatype in ("INT64", "INT32") and correlation_id >= _SIGN_BIT:
            correlation_id -= 2 * _SIGN_BIT
        return struct.pack(_ID_FORMATS[self.id_datatype], correlation_id)

    def _flag(self, name: str, control: "Control", state: int) -> Tensor:
        values = next((field for field in _FALSE_TRUE if getattr(control, field)), "int32_false_true")
        datatype, form = _FALSE_TRUE[values]
        return self._tensor(name, datatype, struct.pack(form, getattr(control, values)[_is_true(control.kind, state)]))

    def _tensor(self, name: str, datatype: str, data: bytes) -> Tensor:
        return Tensor(name, datatype, self._shape, HostBuffer(data, len(data), owned=True))


_ID = _KINDS.CONTROL_SEQUENCE_CORRID


def _controls(batching: ModelSequenceBatching) -> "Iterator[tuple[str, Control]]":
    """By tensor name. Where one tensor has several controls the last kind wins, as in Triton."""
    pairs = [(each.name, control) for each in batching.control_input for control in each.control]
    kinds = (_KINDS.CONTROL_SEQUENCE_START, _KINDS.CONTROL_SEQUENCE_END, _KINDS.CONTROL_SEQUENCE_READY, _ID)
    for kind in kinds:
        yield from ((name, control) for name, control in pairs if control.kind == kind)


def _is_true(kind: int, state: int) -> bool:
    if state == _NOT_READY:
        return False
    if kind == _KINDS.CONTROL_SEQUENCE_READY:
        return True
    return bool(state & (SEQUENCE_START if kind == _KINDS.CONTROL_SEQUENCE_START else SEQUENCE_END))
