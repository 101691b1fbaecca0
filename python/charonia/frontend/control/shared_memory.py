"""Shared memory as JSON and as messages."""

import base64
import binascii
from collections.abc import Iterable
from typing import Any, NamedTuple

from charonia.config import service_schema as schema
from charonia.core.errors import InvalidArgumentError
from charonia.frontend.control.body import Kind, parse_object
from charonia.memory.region import CudaRegion, SystemRegion

DRIVER = "/gpu"
"""Whose turn it is while the GPU's driver is waited for (`WaitingCalls.run`): no model has this name."""

_SYSTEM = {"key": Kind.STRING, "offset": Kind.NATURAL, "byte_size": Kind.NATURAL}
_CUDA = {"raw_handle": Kind.OBJECT, "device_id": Kind.NATURAL, "byte_size": Kind.NATURAL}
_WHAT = "shared memory register"


class SystemOrder(NamedTuple):
    """What to register; sizes in bytes."""

    key: str
    offset: int
    byte_size: int


class CudaOrder(NamedTuple):
    """What to register: the bytes of a cudaIpcMemHandle_t, the GPU's number, the size in bytes."""

    raw_handle: bytes
    device_id: int
    byte_size: int


def system_order(body: bytes) -> SystemOrder:
    """Raises InvalidArgumentError: a field is missing or of another type."""
    found = parse_object(body, _WHAT, _SYSTEM)
    return SystemOrder(_field(found, "key"), found.get("offset", 0), _field(found, "byte_size"))


def cuda_order(body: bytes) -> CudaOrder:
    """Raises as `system_order`, and if the handle is no base64."""
    found = parse_object(body, _WHAT, _CUDA)
    handle = _decoded(_field(found, "raw_handle"))
    return CudaOrder(handle, _field(found, "device_id"), _field(found, "byte_size"))


def system_json(regions: Iterable[SystemRegion]) -> list[Any]:
    return [
        {"name": each.name, "key": each.key, "offset": each.offset, "byte_size": each.byte_size} for each in regions
    ]


def cuda_json(regions: Iterable[CudaRegion]) -> list[Any]:
    return [{"name": each.name, "device_id": each.device_id, "byte_size": each.byte_size} for each in regions]


def system_message(regions: Iterable[SystemRegion]) -> schema.SystemSharedMemoryStatusResponse:
    response = schema.SystemSharedMemoryStatusResponse()
    for each in regions:
        status = response.regions[each.name]
        status.name, status.key, status.offset, status.byte_size = each.name, each.key, each.offset, each.byte_size
    return response


def cuda_message(regions: Iterable[CudaRegion]) -> schema.CudaSharedMemoryStatusResponse:
    response = schema.CudaSharedMemoryStatusResponse()
    for each in regions:
        status = response.regions[each.name]
        status.name, status.device_id, status.byte_size = each.name, each.device_id, each.byte_size
    return response


def _field(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise InvalidArgumentError(f"Shared memory register request has no '{name}' field")
    return found[name]


def _decoded(handle: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(handle["b64"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InvalidArgumentError(
            "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t, in a field 'b64': "
            f"{type(error).__name__} {error}"
        ) from None
