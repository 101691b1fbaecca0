"""JSON as the tree that the text format has, so that both are bound by the same code."""

import json

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from charonia.config.descriptors import descriptor_of, enum_of, is_map, is_message, map_key, map_value, message_of
from charonia.config.json_syntax import JsonKind, JsonMember, JsonNode
from charonia.config.pbtxt_syntax import Block, Entry, Scalar
from charonia.config.pbtxt_tokens import Kind
from charonia.core.text import shown

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


def to_tree(document: JsonNode, message: Message) -> Block:
    """The tree of a JSON object that describes `message`. null stands for an absent field."""
    return _block(document, descriptor_of(message))


def _block(document: JsonNode, descriptor: Descriptor) -> Block:
    block = Block(document.line, document.column)
    by_camel = {field.camelcase_name: field for field in descriptor.fields}
    for member in document.members:
        if not member.value.is_null:
            field = descriptor.fields_by_name.get(member.name) or by_camel.get(member.name)
            block.entries.append(_entry(member, field))
    return block


def _entry(member: JsonMember, field: FieldDescriptor | None) -> Entry:
    value = member.value
    if field is None:
        return Entry(member.name, member.line, member.column)
    entry = Entry(field.name, member.line, member.column)
    if is_map(field) and value.kind is JsonKind.OBJECT:
        entry.values.extend(_map_entry(inner, field) for inner in value.members)
    elif value.kind is JsonKind.ARRAY:
        entry.is_list = True
        entry.values.extend(_value(element, field) for element in value.items)
    else:
        entry.values.append(_value(value, field))
    return entry


def _map_entry(member: JsonMember, field: FieldDescriptor) -> Block:
    line, column = member.line, member.column
    key = JsonNode(JsonKind.STRING, line, column, member.name)
    entries = [Entry("key", line, column, [_scalar(key, map_key(field))])]
    if not member.value.is_null:
        entries.append(Entry("value", line, column, [_value(member.value, map_value(field))]))
    return Block(line, column, entries)


def _value(value: JsonNode, field: FieldDescriptor) -> Scalar | Block:
    if value.kind is JsonKind.OBJECT:
        # Without a message type the binder refuses the block whatever is in it.
        return _block(value, message_of(field)) if is_message(field) else Block(value.line, value.column)
    return _scalar(value, field)


def _scalar(value: JsonNode, field: FieldDescriptor) -> Scalar:
    """Text in a numeric or enum field is read as what it says: protobuf's JSON writes 64-bit integers as text."""
    kind, text, data = Kind.NAME, value.text, b""
    if value.kind is JsonKind.ARRAY:
        text = "a list"
    elif value.kind is JsonKind.NUMBER or (value.kind is JsonKind.STRING and field.cpp_type in _NUMERIC):
        kind, text = _number(value.text)
    elif value.kind is JsonKind.STRING and field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        text = _enum_name(value.text, field)
    elif value.kind is JsonKind.STRING:
        kind, data = Kind.STRING, value.text.encode("utf-8", "surrogatepass")
        text = shown(json.dumps(value.text, ensure_ascii=False))
    return Scalar(kind, text, value.line, value.column, data)


def _number(text: str) -> tuple[Kind, str]:
    """Numbers as `1.0` and `1e3` are whole ones too, in JSON."""
    bare = text.removeprefix("-")
    if not bare[:1].isdecimal():
        return Kind.NAME, shown(text)
    if any(mark in bare for mark in ".eE") and len(text) < 40:
        try:
            value = float(text)
        except ValueError:
            return Kind.NUMBER, text
        return Kind.NUMBER, str(int(value)) if value.is_integer() and abs(value) < 2**64 else text
    return Kind.NUMBER, text


def _enum_name(word: str, field: FieldDescriptor) -> str:
    """Names of enum values are taken in any case, as Triton takes them."""
    return word.upper() if word.upper() in enum_of(field).values_by_name else shown(word)
