"""A ModelConfig in the JSON shape of Triton's `GET …/config`, and back from the JSON of a config override."""

import json
import math
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from charonia.config.bind import Binder
from charonia.config.descriptors import enum_of, fields_in_order, is_map, is_message, is_repeated, map_value
from charonia.config.findings import ConfigError, Finding, Severity, raise_on_errors
from charonia.config.json_syntax import JsonKind, parse_json
from charonia.config.json_tree import to_tree
from charonia.config.pbtxt import LIMIT_BYTES, Document
from charonia.config.pbtxt_tokens import Problem, SyntaxStop
from charonia.config.places import Places
from charonia.config.schema import ModelConfig
from charonia.core.text import shown

Json = bool | int | float | str | list["Json"] | dict[str, "Json"]

_LONG = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
_LEFT_AS_TEXT = frozenset(("Shape.dim", "InitialState.dims", "SecondaryDevice.device_id"))
"""The 64-bit fields that Triton leaves as the strings that protobuf makes of them; all others are numbers."""


def config_to_json(config: ModelConfig) -> dict[str, Json]:
    """Triton's shape: every field without presence, also at its default; messages and oneof members only when set.

    The keys stand in the order of the schema's file.
    """
    return _message_to_json(config)


def config_to_json_text(config: ModelConfig) -> str:
    """As `config_to_json`, without spaces, as Triton sends it."""
    return json.dumps(config_to_json(config), ensure_ascii=False, separators=(",", ":"))


def config_from_json(text: str, file: str = "config override") -> Document:
    """Read the JSON of a config override: names in snake or camel case, 64-bit integers as numbers or text.

    Args:
        file: what messages call the source.

    Raises:
        ConfigError: with all findings; each has its line and column in `text` and the path of its field.
    """
    places = Places(file, text.split("\n"), is_json=True)
    if len(text) > LIMIT_BYTES:
        message = f"this has {len(text)} characters, more than the {LIMIT_BYTES} that a configuration may have"
        raise _refusal(places, Problem(1, 1, message))
    try:
        document = parse_json(text)
    except SyntaxStop as stop:
        raise _refusal(places, stop.problem) from None
    if document.kind is not JsonKind.OBJECT:
        message = f"a model configuration is a JSON object, got {shown(text.strip())}"
        raise _refusal(places, Problem(document.line, document.column, message, 'write { "max_batch_size": … }'))
    config = ModelConfig()
    binder = Binder(file, text.split("\n"), is_json=True)
    binder.bind(config, to_tree(document, config))
    raise_on_errors(binder.findings)
    return Document(config, binder.places, tuple(binder.findings))


def _refusal(places: Places, problem: Problem) -> ConfigError:
    place = places.place(problem.line, problem.column)
    return ConfigError([Finding(Severity.ERROR, "", place, problem.message, problem.remedy)])


def _message_to_json(message: Message) -> dict[str, Json]:
    return {
        field.name: _field_to_json(message, field) for field in fields_in_order(message) if _is_shown(message, field)
    }


def _is_shown(message: Message, field: FieldDescriptor) -> bool:
    has_presence = not is_repeated(field) and (is_message(field) or field.containing_oneof is not None)
    return message.HasField(field.name) if has_presence else True


def _field_to_json(message: Message, field: FieldDescriptor) -> Json:
    value: Any = getattr(message, field.name)
    if is_map(field):
        value_field = map_value(field)
        return {str(key): _value_to_json(value_field, value[key]) for key in value}
    if is_repeated(field):
        return [_value_to_json(field, element) for element in value]
    return _value_to_json(field, value)


def _value_to_json(field: FieldDescriptor, value: Any) -> Json:
    if is_message(field):
        return _message_to_json(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = enum_of(field).values_by_number.get(value)
        return known.name if known is not None else int(value)
    if field.cpp_type in _LONG and _short_path(field) in _LEFT_AS_TEXT:
        return str(value)
    if isinstance(value, float):
        return _float_to_json(value, is_single=field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT)
    scalar: bool | int | str = value
    return scalar


def _short_path(field: FieldDescriptor) -> str:
    owner = field.containing_type
    return f"{owner.name if owner is not None else ''}.{field.name}"


def _float_to_json(value: float, *, is_single: bool) -> Json:
    """The shortest digits that read back; whole numbers without `.0`, and words for what JSON has no number for."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if is_single:
        value = float(str(np.float32(value)))
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
