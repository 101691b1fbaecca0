"""What a writer probably meant by a name that the schema does not have."""

from collections.abc import Iterator
from difflib import get_close_matches

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from charonia.config.descriptors import enum_of, owner_of
from charonia.core.datatypes import DATATYPES
from charonia.core.text import shown

_MEANT = {
    "shape": "dims",
    "dim": "dims",
    "dimensions": "dims",
    "type": "data_type",
    "dtype": "data_type",
    "datatype": "data_type",
    "max_batch": "max_batch_size",
    "batch_size": "max_batch_size",
    "instances": "instance_group",
    "gpu": "gpus",
    "device": "gpus",
}
"""Names from other tools whose nearest neighbour by spelling would mislead."""
_DATATYPE_WORDS = {"STRING": "TYPE_STRING", "STR": "TYPE_STRING", "OBJECT": "TYPE_STRING", "DOUBLE": "TYPE_FP64",
                   "HALF": "TYPE_FP16", "BFLOAT16": "TYPE_BF16", "FLOAT": "TYPE_FP32", "INT": "TYPE_INT32",
                   "LONG": "TYPE_INT64", "BOOLEAN": "TYPE_BOOL"}  # fmt: skip


def unknown_field(name: str, owner: Descriptor) -> tuple[str, str]:
    """Message and remedy for a field that `owner` does not have."""
    message = f"{owner.name} has no field '{shown(name)}'"
    near = _nearest(name, owner)
    if near:
        return message, f"did you mean '{near}'?"
    homes = [path for path, descriptor in _messages_of(_root(owner)) if name in descriptor.fields_by_name]
    if homes and homes[0]:
        return message, f"'{name}' belongs to '{homes[0]}'"
    if homes:
        return message, f"'{name}' belongs to the top level, so a '}}' is probably missing before it"
    return message, f"its fields are {', '.join(field.name for field in owner.fields)}"


def _nearest(name: str, owner: Descriptor) -> str:
    meant = _MEANT.get(name.lower(), "")
    if meant in owner.fields_by_name:
        return meant
    close = get_close_matches(name.lower(), list(owner.fields_by_name), 1, 0.7)
    return close[0] if close else ""


def _root(owner: Descriptor) -> Descriptor:
    return owner.file.message_types_by_name.get("ModelConfig", owner)


def _messages_of(root: Descriptor) -> Iterator[tuple[str, Descriptor]]:
    """`root` and every message below it with the field that it is first met in, nearest first: `dynamic_batching`, …"""
    waiting, seen = [("", root)], set()
    while waiting:
        path, descriptor = waiting.pop(0)
        if descriptor.full_name in seen:
            continue
        seen.add(descriptor.full_name)
        yield path, descriptor
        inner = [(field.name, field.message_type) for field in descriptor.fields if field.message_type is not None]
        waiting.extend((f"{path}.{name}" if path else name, message) for name, message in inner)


def unknown_enum_value(field: FieldDescriptor, word: str) -> tuple[str, str]:
    """Message and remedy for a value that the field's enum does not have."""
    names = [value.name for value in enum_of(field).values if value.name != "TYPE_INVALID"]
    message = f"'{field.name}' of {owner_of(field)} has no value {shown(word)}"
    near = _datatype_meant(word) if enum_of(field).name == "DataType" else ""
    if not near:
        close = get_close_matches(word.upper(), names, 1, 0.6)
        near = close[0] if close else next((name for name in names if name.endswith(f"_{word.upper()}")), "")
    allowed = f"llowed are {', '.join(names)}"
    return message, f"did you mean {near}? A{allowed}" if near else f"a{allowed}"


def _datatype_meant(word: str) -> str:
    """TYPE_FP32 for `FP32`, `float32`, `TYPE_FLOAT32` and the like, "" when it is not plain."""
    bare = word.upper().removeprefix("TYPE_")
    if bare in DATATYPES:
        return DATATYPES[bare].config_name
    if bare.startswith("FLOAT") and bare.replace("FLOAT", "FP") in DATATYPES:
        return DATATYPES[bare.replace("FLOAT", "FP")].config_name
    return _DATATYPE_WORDS.get(bare, "")
