"""From what a program gives for a setting to a value of the setting's declared type.

A flag that may be repeated has three forms: one text as on the command line, several of them, or, where it has settings
by name, a dictionary, whose values may be numbers and booleans.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from charonia.core.errors import InvalidArgumentError
from charonia.core.text import named_setting, shown

Setting = tuple[str, str, str]
"""(name, setting, value); the name is "" for a setting without one."""

_FORM = "<name>,<setting>=<value> or <setting>=<value>"


def option_value(name: str, declared: Any, value: Any) -> Any:
    """
    Args:
        name: of the setting.
        declared: its type in ServerOptions.

    Raises:
        InvalidArgumentError: the value is nothing that such a setting can be made of.
    """
    return READERS[declared](f"--{name.replace('_', '-')}", value)


def setting(text: str) -> Setting:
    """`<name>,<setting>=<value>`, or `<setting>=<value>` with the name ""."""
    found = named_setting(text)
    if found is None:
        raise InvalidArgumentError(f"expected {_FORM}, got '{text}'")
    return found


def merged_settings(given: Iterable[Setting]) -> Mapping[str, Mapping[str, str]]:
    """Settings by name; of a setting that is given twice the last one counts."""
    merged: dict[str, dict[str, str]] = {}
    for name, key, worth in given:
        merged.setdefault(name, {})[key] = worth
    return merged


def flat_settings(given: Iterable[Setting]) -> Mapping[str, str]:
    """As `merged_settings`, under "setting" or "name,setting"."""
    return {f"{name},{key}" if name else key: worth for name, key, worth in given}


def _switch(flag: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong(flag, "True or False", value)


def _whole_number(flag: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _wrong(flag, "a whole number", value)


def _number(flag: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _wrong(flag, "a number", value)


def _text(flag: str, value: object) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(path, str):
        return path
    raise _wrong(flag, "text", value)


def _texts(flag: str, value: object, form: str = "a text or a list of texts") -> tuple[str, ...]:
    if isinstance(value, str | os.PathLike):
        return (_text(flag, value),)
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return tuple(_text(f"each value of {flag}", each) for each in value)
    raise _wrong(flag, form, value)


def _settings(flag: str, value: object) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return {_text(f"each name in {flag}", key): _worth(f"{flag}={key}", worth) for key, worth in value.items()}
    return flat_settings(_read(flag, value))


def _named_settings(flag: str, value: object) -> Mapping[str, Mapping[str, str]]:
    if not isinstance(value, Mapping):
        return merged_settings(_read(flag, value))
    named = {}
    for name, settings in value.items():
        whose = f"{flag}={_text(f'each name in {flag}', name)}"
        if not isinstance(settings, Mapping):
            raise _wrong(whose, "a dictionary of settings", settings)
        named[name] = {
            _text(f"each setting of {whose}", key): _worth(f"{whose},{key}", worth) for key, worth in settings.items()
        }
    return named


def _read(flag: str, value: object) -> list[Setting]:
    """Settings as the command line has them."""
    texts = _texts(flag, value, f"a dictionary, a text {_FORM}, or a list of such texts")
    try:
        return [setting(text) for text in texts]
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{flag}: {error}") from None


def _worth(whose: str, value: object) -> str:
    """What a setting is worth, as the command line would say it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str | os.PathLike):
        return _text(whose, value)
    raise _wrong(whose, "text, a number or a boolean", value)


def _wrong(what: str, expected: str, got: object) -> InvalidArgumentError:
    """Of what is made of parts only the type is told: there may be a secret in it."""
    is_plain = got is None or isinstance(got, str | int | float)
    return InvalidArgumentError(
        f"{what} must be {expected}, got {shown(repr(got)) if is_plain else type(got).__name__}"
    )


READERS: Mapping[Any, Callable[[str, object], Any]] = {
    bool: _switch,
    int: _whole_number,
    float: _number,
    str: _text,
    Sequence[str]: _texts,
    Mapping[str, str]: _settings,
    Mapping[str, Mapping[str, str]]: _named_settings,
}
"""By declared type."""
