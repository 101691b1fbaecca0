"""What a backend filled into a configuration, found by comparing before and after."""

import io
from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from charonia.config.descriptors import fields_in_order, is_map, is_message, is_repeated
from charonia.config.findings import Completion


def differences(before: Message, after: Message, reason: str, path: str = "") -> list[Completion]:
    """Each field of `after` that `before` has not, or has otherwise; fields that are gone are not listed."""
    return list(_differences(before, after, reason, f"{path}." if path else ""))


def _differences(before: Message, after: Message, reason: str, prefix: str) -> Iterator[Completion]:
    for field in fields_in_order(after):
        path = f"{prefix}{field.name}"
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old == new and _is_set(before, field) == _is_set(after, field):
            continue
        if not is_message(field) or is_map(field):
            yield Completion(path, _values(field, new), reason)
        elif not is_repeated(field):
            yield from _message(old if _is_set(before, field) else None, new, field, reason, path)
        else:
            for index, element in enumerate(new):
                was = old[index] if index < len(old) else None
                yield from _message(was, element, field, reason, f"{path}[{index}]")


def _message(
    before: Message | None, after: Message, field: FieldDescriptor, reason: str, path: str
) -> Iterator[Completion]:
    if before is None:
        yield Completion(path, _text(field, after), reason)
    else:
        yield from _differences(before, after, reason, f"{path}.")


def _is_set(message: Message, field: FieldDescriptor) -> bool:
    return message.HasField(field.name) if is_message(field) and not is_repeated(field) else True


def _values(field: FieldDescriptor, value: Any) -> str:
    if is_map(field):
        return f"{{ {', '.join(map(str, value))} }}"
    return f"[{', '.join(_text(field, each) for each in value)}]" if is_repeated(field) else _text(field, value)


def _text(field: FieldDescriptor, value: Any) -> str:
    out = io.StringIO()
    text_format.PrintFieldValue(field, value, out, as_one_line=True)
    return " ".join(out.getvalue().split())
