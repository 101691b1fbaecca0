"""Message classes built at import from `descriptors.binpb`, in a descriptor pool of our own.

The default pool belongs to whoever generated classes with protoc. `tritonclient` is such a one, and it uses the same
package name `inference`: two definitions under one name in one pool are an error, in two pools they are not.
"""

from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

FILE_DESCRIPTOR_SET = Path(__file__).with_name("descriptors.binpb").read_bytes()


def _build_pool() -> DescriptorPool:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(FILE_DESCRIPTOR_SET).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _build_pool()


def message(name: str, package: str = "inference") -> Any:
    """The class of a message."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}"))


def enum(name: str) -> Any:
    """The wrapper (`Name`, `Value`, `items`) of the enum `inference.{name}`."""
    return EnumTypeWrapper(_POOL.FindEnumTypeByName(f"inference.{name}"))


def methods(service: str) -> tuple[str, ...]:
    """The names of the methods of a service."""
    return tuple(_POOL.FindServiceByName(service).methods_by_name)
