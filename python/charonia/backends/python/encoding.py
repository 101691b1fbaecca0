"""A batch of requests as the values and columns of a BATCH frame; inline models read the same."""

from collections.abc import Sequence
from typing import Any

from charonia.backends.joining import host_bytes
from charonia.backends.python.child.arena import LARGE_BYTES
from charonia.backends.python.child.columns import Packer
from charonia.core.request import InferRequest
from charonia.core.tensor import Buffer, Tensor
from charonia.core.unread import UnreadBuffer


def requested_of(requests: Sequence[InferRequest]) -> Any:
    """The output names that all requests ask for, () for all outputs; or a list of what each asks for."""
    names = [request.requested_outputs for request in requests]
    return names[0] if names.count(names[0]) == len(names) else names


def facts_of(requests: Sequence[InferRequest]) -> list[Any]:
    return [
        (
            request.id,
            request.correlation_id,
            request.flags,
            request.timeout_us,
            request.priority,
            dict(request.parameters) if request.parameters else None,
            None if request.trace is None else request.trace.handle,
        )
        for request in requests
    ]


def callers_of(requests: Sequence[InferRequest]) -> tuple[str, ...]:
    """The models that wait for any of these requests, each once."""
    first = requests[0].ancestors if requests else ()
    if all(request.ancestors == first for request in requests):
        return first
    return tuple(dict.fromkeys([name for request in requests for name in request.ancestors]))


def groups_of(packer: Packer, requests: Sequence[InferRequest], keeps_devices: bool = False) -> list[Any]:
    """Requests with the same inputs (names and datatypes) together; usually that is all of them.

    Args:
        keeps_devices: inputs on a device stay there, if the receiver can open them; else they are copied to the host.
    """
    names = [tuple(request.inputs) for request in requests]
    if keeps_devices and any(is_on_device(tensor) for request in requests for tensor in request.inputs.values()):
        return [([index], _mixed_columns(packer, request)) for index, request in enumerate(requests)]
    if names.count(names[0]) == len(names):
        columns = _columns(packer, names[0], requests)
        if columns is not None:
            return [(None, columns)]
    groups: dict[Any, list[int]] = {}
    for index, request in enumerate(requests):
        key = tuple([(name, tensor.datatype) for name, tensor in request.inputs.items()])
        groups.setdefault(key, []).append(index)
    return [
        (indices, _columns(packer, [name for name, _ in key], [requests[index] for index in indices]))
        for key, indices in groups.items()
    ]


def _columns(packer: Packer, names: Sequence[str], requests: Sequence[InferRequest]) -> list[Any] | None:
    """None when one input has different datatypes."""
    tensors_by_name = [[request.inputs[name] for request in requests] for name in names]
    for tensors in tensors_by_name:
        datatypes = [tensor.datatype for tensor in tensors]
        if datatypes.count(datatypes[0]) != len(datatypes):
            return None
    return [_column(packer, name, tensors) for name, tensors in zip(names, tensors_by_name, strict=True)]


def _mixed_columns(packer: Packer, request: InferRequest) -> list[Any]:
    return [one_column(packer, tensor) for tensor in request.inputs.values()]


def one_column(packer: Packer, tensor: Tensor, prefers_host: bool = False) -> Any:
    """One tensor, where it lies, unless the receiver prefers the host."""
    if is_on_device(tensor) and not prefers_host:
        column = packer.device_column(tensor.name, tensor.datatype, [tensor.shape], [tensor.buffer])
        if column is not None:
            return column
    return _column(packer, tensor.name, [tensor])


def is_on_device(tensor: Tensor) -> bool:
    return tensor.buffer.device != "cpu"


def _column(packer: Packer, name: str, tensors: list[Tensor]) -> Any:
    buffers = [tensor.buffer for tensor in tensors]
    sizes = [buffer.nbytes for buffer in buffers]
    hosts = _sources(buffers) if sizes[0] >= LARGE_BYTES else [host_bytes(buffer.host()) for buffer in buffers]
    return packer.column(name, tensors[0].datatype, [tensor.shape for tensor in tensors], hosts, sizes)


def _sources(buffers: list[Buffer]) -> list[Any]:
    """Host memory; but where all are large, what was not read yet is left to be read into its place by the arena."""
    if min(buffer.nbytes for buffer in buffers) < LARGE_BYTES:
        return [host_bytes(buffer.host()) for buffer in buffers]
    return [buffer if type(buffer) is UnreadBuffer else host_bytes(buffer.host()) for buffer in buffers]
