"""The JSON bodies of control requests: one way to read them, with every fault of theirs told by name."""

import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from charonia.core.errors import InvalidArgumentError
from charonia.core.text import shown

MAX_DEPTH = 100
"""Nesting of arrays and objects in a body, Triton's limit."""
MAX_VALUES = 10_000
"""Values in a body. No control request has so many, and 64 MiB of `[],` would take 1.4 GB as Python objects."""
MAX_BYTES = 4 << 20
"""Of a body that the event loop reads. Those of loads carry models, and are read elsewhere."""

# Whole strings, and what nests or separates. Possessive: a body of 64 MiB must not be scanned twice, nor remembered.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)


class Kind(StrEnum):
    """What a member of a body has to be."""

    BOOLEAN = "a boolean"
    NATURAL = "an unsigned integer"
    STRING = "a string"
    OBJECT = "an object"


Kinds = Mapping[str, Kind]
_NO_KINDS: Kinds = {}


def parse_object(
    body: bytes, what: str, kinds: Kinds = _NO_KINDS, *, nulls: bool = False, max_bytes: int | None = MAX_BYTES
) -> dict[str, Any]:
    """The JSON object of a request body, {} for an empty body.

    Args:
        what: names the body in messages.
        kinds: the members that the caller knows, each of which may be left out; others are not looked at.
        nulls: whether a known member may be null.
        max_bytes: None where only the limit of all HTTP bodies counts.

    Raises:
        InvalidArgumentError: too long, not UTF-8, not JSON (NaN is not), nested too deep, too many values, a name twice
            in an object, not an object, or a known member of another kind.
    """
    if not body:
        return {}
    if max_bytes is not None and len(body) > max_bytes:
        raise InvalidArgumentError(f"{what} body has {len(body)} bytes, expected at most {max_bytes}")
    try:
        text = body.decode("utf-8")
        _check_size(text, what, kinds)
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{what} body must be a JSON object, got {kind_of(value)}")
    for name, kind in kinds.items():
        if name in value and not (is_kind(value[name], kind) or (nulls and value[name] is None)):
            raise InvalidArgumentError(_wrong_kind(what, name, kind, kind_of(value[name])))
    return value


def is_kind(value: object, kind: Kind) -> bool:
    if kind is Kind.NATURAL:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return isinstance(value, {Kind.BOOLEAN: bool, Kind.STRING: str, Kind.OBJECT: dict}[kind])


def kind_of(value: object) -> str:
    """For messages; numbers as they are, since a wrong one is mostly a negative one."""
    if value is None:
        return "null"
    known = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return known.get(type(value)) or f"the number {shown(repr(value))}"


def _check_size(text: str, what: str, kinds: Kinds) -> None:
    """Before parsing, which could exhaust the stack or the memory."""
    depth = values = strings = 0
    key = ""
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first == '"':
            strings += 1
            key = token[0].strip('"') if depth == 1 and token.end() - token.start() < MAX_DEPTH else key
        elif first in "]}":
            depth -= 1
        else:
            values += 1
            depth += first != ","
            if depth > MAX_DEPTH:
                raise InvalidArgumentError(_too_deep(what, key, kinds))
        if values > MAX_VALUES or strings > 2 * MAX_VALUES:  # two of a value: its name and itself
            raise InvalidArgumentError(f"{what} body has more than {MAX_VALUES} values")


def _too_deep(what: str, key: str, kinds: Kinds) -> str:
    sentence = f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH})"
    if key in kinds:
        return f"{_wrong_kind(what, key, kinds[key], 'more brackets than that')}: {sentence}"
    return f"{what} body: {sentence}"


def _wrong_kind(what: str, name: str, kind: Kind, got: str) -> str:
    return f"{what} body: Invalid value for '{name}': expected {kind}, got {got}"


def _without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"'{shown(name)}' stands twice in one object")
        members[name] = value
    return members


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
