"""From a tree of entries to a protobuf message, by its descriptor, with a finding for everything that does not fit."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from charonia.config.descriptors import (
    descriptor_of,
    fields_by_name,
    is_map,
    is_message,
    is_repeated,
    map_key,
    map_value,
    message_of,
    owner_of,
    rivals_of,
)
from charonia.config.findings import Finding, Severity
from charonia.config.pbtxt_syntax import MOST_PROBLEMS, Block, Entry, Scalar
from charonia.config.places import Places
from charonia.config.report import as_written
from charonia.config.scalars import Misfit, convert
from charonia.config.spelling import unknown_field

_KEEP_ONE = "keep one of them"


class _Enough(Exception):
    """More mistakes than anybody reads were found."""


class Binder:
    """Fills one message from one source, and keeps where each field was written."""

    def __init__(self, file: str, lines: Sequence[str] = (), *, is_json: bool = False) -> None:
        self._at: dict[str, tuple[int, int]] = {}
        self.places = Places(file, lines, self._at, is_json=is_json)
        self.findings: list[Finding] = []

    def bind(self, message: Message, tree: Block) -> None:
        """Set the fields of `message` from the whole source, up to the most mistakes that are listed."""
        try:
            self.fill(message, tree)
        except _Enough:
            pass

    def fill(self, message: Message, block: Block, path: str = "") -> None:
        """Set the fields of `message` from the entries of `block`; `path` is the message's own path."""
        seen: dict[str, Entry] = {}
        for entry in block.entries:
            field = fields_by_name(message).get(entry.name)
            if field is None:
                self._refuse(entry, path, *unknown_field(entry.name, descriptor_of(message)))
                continue
            field_path = f"{path}.{entry.name}" if path else entry.name
            if self._may_be_set(entry, field, seen, field_path):
                seen.setdefault(entry.name, entry)
                self._at.setdefault(field_path, (entry.line, entry.column))
                self._set(message, field, entry, field_path)

    def _may_be_set(self, entry: Entry, field: FieldDescriptor, seen: dict[str, Entry], path: str) -> bool:
        if is_repeated(field):
            return True
        earlier = seen.get(entry.name)
        if earlier is not None:
            message = f"'{entry.name}' is set twice in {owner_of(field)}{_on_line(', first', earlier.line)}"
            self._refuse(entry, path, message, _KEEP_ONE)
            return False
        for other in rivals_of(field):
            rival = seen.get(other.name)
            if rival is not None:
                where = _on_line(f"; '{other.name}' stands", rival.line)
                message = f"'{entry.name}' and '{other.name}' exclude one another in {owner_of(field)}{where}"
                self._refuse(entry, path, message, _KEEP_ONE)
                return False
        return True

    def _set(self, message: Message, field: FieldDescriptor, entry: Entry, path: str) -> None:
        if entry.is_list and not is_repeated(field):
            text = f"'{field.name}' of {owner_of(field)} takes one value, not a list"
            self._refuse(entry, path, text, "write the value without brackets")
            return
        for value in entry.values:
            # An element of a bracketed list stands where its own text begins, a repeated entry where its name stands.
            at = (value.line, value.column) if entry.is_list else (entry.line, entry.column)
            if is_map(field):
                self._set_map_entry(message, field, value, path, at)
            elif isinstance(value, Block):
                self._set_message(message, field, value, path, at)
            else:
                self._set_scalar(message, field, value, path)

    def _set_message(
        self, message: Message, field: FieldDescriptor, block: Block, path: str, at: tuple[int, int]
    ) -> None:
        if not is_message(field):
            text = f"'{field.name}' of {owner_of(field)} takes a plain value, not '{{ … }}'"
            self._refuse(block, path, text, f"write {field.name}: …")
            return
        target: Any = getattr(message, field.name)
        if is_repeated(field):
            path = f"{path}[{len(target)}]"
            self._at[path] = at
            target = target.add()
        else:
            target.SetInParent()
        self.fill(target, block, path)

    def _set_scalar(self, message: Message, field: FieldDescriptor, scalar: Scalar, path: str) -> None:
        if is_repeated(field):
            target: Any = getattr(message, field.name)
            path = f"{path}[{len(target)}]" if not is_message(field) else path
        try:
            value = convert(field, scalar)
        except Misfit as misfit:
            self._refuse(scalar, path, misfit.message, misfit.remedy)
            return
        if is_repeated(field):
            target.append(value)
            self._at[path] = (scalar.line, scalar.column)
        else:
            setattr(message, field.name, value)

    def _set_map_entry(
        self, message: Message, field: FieldDescriptor, value: Scalar | Block, path: str, at: tuple[int, int]
    ) -> None:
        if isinstance(value, Scalar):
            text = f"'{field.name}' takes entries with a key and a value, got {value.shown}"
            self._refuse(value, path, text, f'write {field.name} {{ key: "…" value: … }}')
            return
        parts = self._map_parts(field, value, path)
        key = self._map_key(field, value, parts.get("key"), path)
        if key is None:
            return
        target: Any = getattr(message, field.name)
        path = f'{path}["{key}"]'
        if key in target:
            earlier = _on_line(", first", self._at.get(path, (0, 0))[0])
            self._refuse(value, path, f"the key \"{key}\" stands twice in '{field.name}'{earlier}", _KEEP_ONE)
            return
        self._at[path] = at
        self._set_map_value(field, target, key, parts.get("value"), path)

    def _map_parts(self, field: FieldDescriptor, block: Block, path: str) -> dict[str, Scalar | Block]:
        parts: dict[str, Scalar | Block] = {}
        for entry in block.entries:
            subject = f"an entry of '{field.name}'"
            if entry.name not in ("key", "value"):
                remedy = "put it into the value" if is_message(map_value(field)) else ""
                self._refuse(entry, path, f"{subject} has a 'key' and a 'value', not '{entry.name}'", remedy)
            elif entry.name in parts:
                self._refuse(entry, path, f"'{entry.name}' is set twice in {subject}", _KEEP_ONE)
            elif len(entry.values) != 1:
                self._refuse(entry, path, f"'{entry.name}' in {subject} takes one value, not a list")
            else:
                parts[entry.name] = entry.values[0]
        return parts

    def _map_key(self, field: FieldDescriptor, block: Block, value: Scalar | Block | None, path: str) -> Any:
        if value is None:
            # Legal, and Triton's own tests do it; the key is then "" or 0.
            self._note(Severity.WARNING, block, path, f"an entry of '{field.name}' has no key", 'add key: "…"')
            return map_key(field).default_value
        if isinstance(value, Block):
            self._refuse(value, path, f"the key of an entry of '{field.name}' is a plain value, not '{{ … }}'")
            return None
        try:
            return convert(map_key(field), value)
        except Misfit as misfit:
            self._refuse(value, path, misfit.message, misfit.remedy)
            return None

    def _set_map_value(
        self, field: FieldDescriptor, target: Any, key: Any, value: Scalar | Block | None, path: str
    ) -> None:
        kind = map_value(field)
        if is_message(kind):
            inner = target[key]  # a map of messages makes the entry at the first look
            if isinstance(value, Block):
                self.fill(inner, value, path)
            elif value is not None:
                wanted = message_of(kind)
                text = f"the value for \"{key}\" in '{field.name}' is a {wanted.name}, got {value.shown}"
                self._refuse(value, path, text, _as_message(wanted, value, is_json=self.places.is_json))
        elif isinstance(value, Block):
            text = f"the value for \"{key}\" in '{field.name}' is plain text, not '{{ … }}'"
            self._refuse(value, path, text, 'write value: "…"')
        else:
            try:
                target[key] = kind.default_value if value is None else convert(kind, value)
            except Misfit as misfit:
                self._refuse(value or Block(0, 0), path, misfit.message, misfit.remedy)

    def _refuse(self, node: Entry | Block | Scalar, path: str, message: str, remedy: str = "") -> None:
        self._note(Severity.ERROR, node, path, message, remedy)

    def _note(
        self, severity: Severity, node: Entry | Block | Scalar, path: str, message: str, remedy: str = ""
    ) -> None:
        place = self.places.place(node.line, node.column)
        if len(self.findings) >= MOST_PROBLEMS:
            message, remedy = "there are more mistakes than these from here on", ""
        remedy = as_written(remedy, self.places)
        self.findings.append(Finding(severity, path, place, message, remedy))
        if len(self.findings) > MOST_PROBLEMS:
            raise _Enough


def _on_line(words: str, line: int) -> str:
    return f"{words} on line {line}" if line else ""


def _as_message(wanted: Descriptor, value: Scalar, *, is_json: bool) -> str:
    """How the plain value would be written inside the message: exact for messages of one field, as ModelParameter."""
    name = wanted.fields[0].name
    inside = f'"{name}": {value.shown}' if is_json else f"{name}: {value.shown}"
    lead = "write " if is_json else "write value: "
    return f"{lead}{{ {inside if len(wanted.fields) == 1 else '…'} }}"
