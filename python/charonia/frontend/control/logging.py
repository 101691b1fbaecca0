"""Log settings on the wire: from a JSON body and from a message, and back, in Triton's order of keys."""

from collections.abc import Mapping
from typing import Any

from charonia.config import service_schema as schema
from charonia.control.logging import LogChange
from charonia.core.errors import InvalidArgumentError
from charonia.frontend.control.body import Kind, parse_object
from charonia.observe.log import LevelChanges, LogLevels, LogSettings

_LEVELS = {
    "log_info": "info",
    "log_warning": "warning",
    "log_error": "error",
    "log_verbose_level": "verbose_level",
}
"""Fields of LevelChanges by their names on the wire."""

_KINDS = {
    "log_file": Kind.STRING,
    "log_info": Kind.BOOLEAN,
    "log_warning": Kind.BOOLEAN,
    "log_error": Kind.BOOLEAN,
    "log_verbose_level": Kind.NATURAL,
    "log_format": Kind.STRING,
}
_CHOICES = {
    Kind.STRING: ("string_param", "string"),
    Kind.BOOLEAN: ("bool_param", "boolean"),
    Kind.NATURAL: ("uint32_param", "int32"),
}
"""Of the message: which field holds a kind, and what Triton calls the kind."""


def change_of_body(body: bytes) -> LogChange:
    """Settings of other names are passed over, as in Triton.

    Raises:
        InvalidArgumentError: as `parse_object`; or there is no body.
    """
    if not body:
        raise InvalidArgumentError("log settings body is empty, expected a JSON object: send {} to change nothing")
    return _change(parse_object(body, "log settings", _KINDS, nulls=True))


def change_of_message(request: schema.LogSettingsRequest) -> LogChange:
    """As `change_of_body`."""
    values = {}
    for name, value in request.settings.items():
        if name not in _KINDS:
            continue
        choice, kind = _CHOICES[_KINDS[name]]
        got = value.WhichOneof("parameter_choice") or "no value"
        if got != choice:
            raise InvalidArgumentError(f"expect {kind} for '{name}', as {choice}; got {got}")
        values[name] = getattr(value, choice)
    return _change(values)


def settings_json(settings: LogSettings) -> Mapping[str, object]:
    return {"log_file": settings.file, **levels_json(settings), "log_format": settings.format}


def levels_json(levels: LogLevels) -> Mapping[str, object]:
    return {name: getattr(levels, field) for name, field in _LEVELS.items()}


def settings_message(settings: LogSettings) -> schema.LogSettingsResponse:
    response = schema.LogSettingsResponse()
    for name, value in settings_json(settings).items():
        setattr(response.settings[name], _CHOICES[_KINDS[name]][0], value)
    return response


def _change(values: Mapping[str, Any]) -> LogChange:
    """`values` have their right kinds, or are None."""
    return LogChange(
        LevelChanges(**{field: values.get(name) for name, field in _LEVELS.items()}),
        values.get("log_format"),
        values.get("log_file"),
        frozenset(field for name, field in _LEVELS.items() if values.get(name, 0) is None),
    )
