"""Decoded JSON as the tree that the text format has, so that both are bound by the same code."""

import json
from collections.abc import Mapping

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from charonia.config.descriptors import descriptor_of, enum_of, is_map, is_message, map_key, map_value, message_of
from charonia.config.pbtxt_syntax import Block, Entry, Scalar
from charonia.config.pbtxt_tokens import Kind

_NUMERIC = frozenset(
    (
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
        FieldDescriptor.CPPTYPE_FLOAT,
        FieldDescriptor.CPPTYPE_DOUBLE,
    )
)


class DuplicateKey(Exception):
    """The key that an object has twice."""


def refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An `object_pairs_hook` for `json.loads`.

    Raises:
        DuplicateKey: a key stands twice.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        raise DuplicateKey(next(name for name in names if names.count(name) > 1))
    return result


def to_tree(document: Mapping[str, object], message: Message) -> Block:
    """The tree of a JSON object that describes `message`. null stands for an absent field. Nodes have no place."""
    return _block(document, descriptor_of(message))


def _block(document: Mapping[str, object], descriptor: Descriptor) -> Block:
    block = Block(0, 0)
    by_camel = {field.camelcase_name: field for field in descriptor.fields}
    for name, value in document.items():
        field = descriptor.fields_by_name.get(name) or by_camel.get(name)
        if value is None:
            continue
        block.entries.append(_entry(name, value, field))
    return block


def _entry(name: str, value: object, field: FieldDescriptor | None) -> Entry:
    if field is None:
        return Entry(name, 0, 0)
    if is_map(field) and isinstance(value, dict):
        return Entry(field.name, 0, 0, [_map_entry(key, inner, field) for key, inner in value.items()])
    if isinstance(value, list):
        return Entry(field.name, 0, 0, [_value(element, field) for element in value], is_list=True)
    return Entry(field.name, 0, 0, [_value(value, field)])


def _map_entry(key: str, value: object, field: FieldDescriptor) -> Block:
    entries = [Entry("key", 0, 0, [_scalar(key, map_key(field))])]
    if value is not None:
        entries.append(Entry("value", 0, 0, [_value(value, map_value(field))]))
    return Block(0, 0, entries)


def _value(value: object, field: FieldDescriptor) -> Scalar | Block:
    if isinstance(value, dict):
        # Without a message type the binder refuses the block whatever is in it.
        return _block(value, message_of(field)) if is_message(field) else Block(0, 0)
    return _scalar(value, field)


def _scalar(value: object, field: FieldDescriptor) -> Scalar:
    """Text in a numeric or enum field is read as what it says: protobuf's JSON writes 64-bit integers as text."""
    if isinstance(value, str):
        if field.cpp_type in _NUMERIC:
            bare = value.removeprefix("-")
            return Scalar(Kind.NUMBER if bare[:1].isdigit() else Kind.NAME, value, 0, 0)
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return Scalar(Kind.NAME, _enum_name(value, field), 0, 0)
        return Scalar(Kind.STRING, json.dumps(value), 0, 0, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, float) and value.is_integer() and field.cpp_type in _NUMERIC:
        value = int(value)
    text = json.dumps(value)
    return Scalar(
        Kind.NUMBER if isinstance(value, int | float) and not isinstance(value, bool) else Kind.NAME, text, 0, 0
    )


def _enum_name(word: str, field: FieldDescriptor) -> str:
    """Names of enum values are taken in any case, as Triton takes them."""
    return word.upper() if word.upper() in enum_of(field).values_by_name else word
