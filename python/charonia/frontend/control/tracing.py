"""Trace settings on the wire: from a JSON body and from a message, and back, in Triton's order of keys.

Every value is text, or a list of texts; what follows another setting again is null, or a list of none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from charonia.config import service_schema as schema
from charonia.control.tracing import TraceRequest
from charonia.core.errors import InvalidArgumentError
from charonia.core.text import shown, whole_number
from charonia.frontend.control.body import kind_of, parse_object
from charonia.observe.traces.config import MAX_COUNT, TraceConfig
from charonia.observe.traces.setting import Level, Mode, TraceValues
from charonia.observe.traces.settings import TraceChange

_FILE = "trace_file"
_MODE = "trace_mode"
_LEVEL = "trace_level"
_NUMBERS = {"trace_rate": "rate", "trace_count": "count", "log_frequency": "log_frequency"}
"""Fields of TraceValues by their names on the wire."""


def request_of_body(body: bytes) -> TraceRequest:
    """Settings of other names are passed over, as in Triton; no body changes nothing.

    Raises:
        InvalidArgumentError: as `parse_object`; or a value of another kind, or out of range.
    """
    values = parse_object(body, "trace settings")
    texts: dict[str, Sequence[str]] = {}
    for name in (_MODE, _LEVEL, *_NUMBERS):
        if name in values:
            texts[name] = _texts(name, values[name])
    return _request(texts, names_file=_FILE in values)


def request_of_message(request: schema.TraceSettingRequest) -> TraceRequest:
    """As `request_of_body`."""
    texts = {name: value.value for name, value in request.settings.items() if name in (_MODE, _LEVEL, *_NUMBERS)}
    return _request(texts, names_file=_FILE in request.settings)


def settings_json(values: TraceValues, config: TraceConfig) -> Mapping[str, object]:
    json: dict[str, object] = {
        _LEVEL: [level.name for level in Level if level & values.level] or [Level.OFF.name],
        "trace_rate": str(values.rate),
        "trace_count": str(values.count),
    }
    if config.mode is Mode.TRITON:
        json |= {"log_frequency": str(values.log_frequency), _FILE: config.file}
    own = {} if config.mode is Mode.TRITON else config.shown
    return {**json, _MODE: config.mode.value, **own}


def settings_message(values: TraceValues, config: TraceConfig) -> schema.TraceSettingResponse:
    response = schema.TraceSettingResponse()
    for name, value in settings_json(values, config).items():
        response.settings[name].value.extend(value if isinstance(value, list) else [str(value)])
    return response


def _texts(name: str, value: Any) -> Sequence[str]:
    """The texts of a member of a body, none for null."""
    if value is None:
        return ()
    if name == _LEVEL:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return value
        raise InvalidArgumentError(f"'{name}' in trace settings must be an array of strings, got {kind_of(value)}")
    if not isinstance(value, str):
        raise InvalidArgumentError(f"'{name}' in trace settings must be a string, as \"1\"; got {kind_of(value)}")
    return (value,)


def _request(texts: Mapping[str, Sequence[str]], *, names_file: bool) -> TraceRequest:
    given: dict[str, Any] = {}
    cleared = set()
    for name, values in texts.items():
        field = "level" if name == _LEVEL else _NUMBERS.get(name)
        if field is None:
            continue
        if not values:
            cleared.add(field)
        else:
            given[field] = _level(values) if name == _LEVEL else _number(name, _only(name, values))
    modes = texts.get(_MODE, ())
    return TraceRequest(TraceChange(given, cleared), names_file, _only(_MODE, modes) if modes else None)


def _only(name: str, values: Sequence[str]) -> str:
    if len(values) != 1:
        raise InvalidArgumentError(f"expect only 1 value for '{name}', got {len(values)}")
    return values[0]


def _level(names: Sequence[str]) -> Level:
    level = Level.OFF
    for name in names:
        if name not in Level.__members__:
            known = ", ".join(Level.__members__)
            raise InvalidArgumentError(f"unknown trace level '{shown(name)}', expected some of {known}")
        level |= Level[name]
    if Level.OFF.name in names and len(names) > 1:
        raise InvalidArgumentError("Expect only one trace level 'OFF' is specified")
    return level


def _number(name: str, text: str) -> int:
    least = -1 if name == "trace_count" else 0
    value = whole_number(text)
    if value is None:
        raise InvalidArgumentError(f"Unable to parse '{name}', got: {shown(text)}; expected a whole number")
    if not least <= value <= MAX_COUNT:
        raise InvalidArgumentError(
            f"Unable to parse '{name}', value is out of range [ {least}, {MAX_COUNT} ], got: {shown(text)}"
        )
    return value
