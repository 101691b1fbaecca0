"""Questions to protobuf descriptors, typed for our schema, in which every field belongs to a message."""

from collections.abc import Mapping, Sequence
from typing import cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message


def descriptor_of(message: Message) -> Descriptor:
    return cast("Descriptor", message.DESCRIPTOR)


def fields_by_name(message: Message) -> Mapping[str, FieldDescriptor]:
    return cast("Mapping[str, FieldDescriptor]", message.DESCRIPTOR.fields_by_name)


def fields_in_order(message: Message) -> Sequence[FieldDescriptor]:
    """As they stand in the schema's file, which is not the order of their numbers."""
    return cast("Sequence[FieldDescriptor]", message.DESCRIPTOR.fields)


def owner_of(field: FieldDescriptor) -> str:
    """The name of the message that has the field."""
    return cast("Descriptor", field.containing_type).name


def is_message(field: FieldDescriptor) -> bool:
    return field.message_type is not None


def message_of(field: FieldDescriptor) -> Descriptor:
    """The message type of a message field."""
    return cast("Descriptor", field.message_type)


def enum_of(field: FieldDescriptor) -> EnumDescriptor:
    """The enum type of an enum field."""
    return cast("EnumDescriptor", field.enum_type)


def is_repeated(field: FieldDescriptor) -> bool:
    """Whether the field is repeated; maps are."""
    known: bool | None = getattr(field, "is_repeated", None)
    if known is None:  # protobuf before 6.31, where `label` is not deprecated yet
        return bool(getattr(field, "label", 0) == 3)
    return known


def is_map(field: FieldDescriptor) -> bool:
    return is_message(field) and message_of(field).GetOptions().map_entry


def map_key(field: FieldDescriptor) -> FieldDescriptor:
    return message_of(field).fields_by_name["key"]


def map_value(field: FieldDescriptor) -> FieldDescriptor:
    return message_of(field).fields_by_name["value"]


def rivals_of(field: FieldDescriptor) -> Sequence[FieldDescriptor]:
    """The other members of the field's oneof."""
    if field.containing_oneof is None:
        return ()
    return [other for other in field.containing_oneof.fields if other.name != field.name]
