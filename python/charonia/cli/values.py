"""From the text after a flag to a value, with Triton's spellings."""

from collections.abc import Callable, Mapping
from typing import Any

from charonia.core.errors import InvalidArgumentError

Convert = Callable[[str], Any]

_TRUE = ("true", "on", "1")
_FALSE = ("false", "off", "0")


def boolean(text: str) -> bool:
    """true, on, 1, false, off or 0, in any case."""
    lower = text.lower()
    if lower in _TRUE:
        return True
    if lower in _FALSE:
        return False
    raise InvalidArgumentError(f"expected true or false, got '{text}'")


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(f"expected a whole number, got '{text}'") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(f"expected a number, got '{text}'") from None


def verbosity(text: str) -> int:
    """A level; true is 1, false 0."""
    return int(text.lower() == "true") if text.lower() in ("true", "false") else integer(text)


def text(value: str) -> str:
    return value


def setting(value: str) -> tuple[str, str, str]:
    """`<name>,<setting>=<value>`, or `<setting>=<value>` with the name "".

    A comma after the first `=` belongs to the value.
    """
    head, equals, worth = value.partition("=")
    name, comma, key = head.rpartition(",")
    if not equals or not key or not worth or (comma and not name):
        raise InvalidArgumentError(f"expected <name>,<setting>=<value> or <setting>=<value>, got '{value}'")
    return name, key, worth


def merged_settings(given: list[tuple[str, str, str]]) -> Mapping[str, Mapping[str, str]]:
    """Settings by name; of a setting that is given twice the last one counts."""
    merged: dict[str, dict[str, str]] = {}
    for name, key, worth in given:
        merged.setdefault(name, {})[key] = worth
    return merged


def flat_settings(given: list[tuple[str, str, str]]) -> Mapping[str, str]:
    """As `merged_settings`, under "setting" or "name,setting"."""
    return {f"{name},{key}" if name else key: worth for name, key, worth in given}
