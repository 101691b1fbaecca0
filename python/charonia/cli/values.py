"""From the text after a flag to a value, with Triton's spellings."""

from collections.abc import Callable
from typing import Any

from charonia.cache.settings import BYTE_SIZE
from charonia.core.errors import InvalidArgumentError
from charonia.core.text import named_setting, whole_number

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
    value = whole_number(text)
    if value is None:
        raise InvalidArgumentError(f"expected a whole number, got '{text}'")
    return value


def integer_of_at_least_0(text: str) -> int:
    """What is below counts as 0, as in Triton."""
    return max(0, integer(text))


def integer_of_at_least_1(text: str) -> int:
    """What is below counts as 1, as in Triton."""
    return max(1, integer(text))


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


def lower(value: str) -> str:
    """A word whose case does not matter."""
    return value.lower()


def address(value: str) -> str:
    """An address to listen at; IPv6 also as `ipv6:[::1]` or `[::1]`, the forms that Triton's two servers want."""
    bare = value.removeprefix("ipv6:").removeprefix("ipv4:")
    return bare[1:-1] if bare.startswith("[") and bare.endswith("]") else bare


def name(value: str) -> str:
    if not value:
        raise InvalidArgumentError("expected a name, got nothing")
    return value


def cache_size(value: str) -> tuple[str, str, str]:
    """A number of bytes, as the setting of the response cache that it stands for."""
    return "local", BYTE_SIZE, str(integer(value))


def policy_setting(value: str) -> tuple[str, str, str]:
    """`<policy>,<setting>=<value>`."""
    found = named_setting(value)
    if found is None or not found[0]:
        raise InvalidArgumentError(f"expected <policy>,<setting>=<value>, got '{value}'")
    return found


def unlike(given: list[str]) -> tuple[str, ...]:
    """Each value once, in the order of the command line: a folder or a model that is named twice is still one."""
    return tuple(dict.fromkeys(given))


def trace_setting(value: str) -> tuple[bool, str]:
    """(whether it is an older flag's, the setting)."""
    return False, value


def older_trace_setting(setting: str) -> Convert:
    """For a flag that has but this setting."""

    def convert(value: str) -> tuple[bool, str]:
        return True, f"{setting}={value}"

    return convert


def trace_settings(given: list[tuple[bool, str]]) -> tuple[str, ...]:
    """Those of older flags first, so that the others count where both are given, as in Triton."""
    return tuple(text for is_older in (True, False) for older, text in given if older is is_older)
