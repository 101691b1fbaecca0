"""How a log line looks: Triton's two formats, and JSON lines. No message can forge a line or steer a terminal."""

import re
from collections.abc import Callable
from datetime import datetime
from json import dumps

from charonia.core.log import LogLevel

LineOf = Callable[[LogLevel, datetime, int, str, int, str], str]
"""The line of (level, UTC time, process id, file, line number, message as it shall appear)."""

# JSON escapes control characters below 0x20. These others end lines, start escape sequences (CSI is 0x9b), turn the
# direction of text round, or are halves of surrogate pairs, which UTF-8 does not have.
_BEYOND_ASCII = "\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{_BEYOND_ASCII}]")
_UNSAFE_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")


def quoted(message: str) -> str:
    """As a JSON string on one line."""
    return _UNSAFE.sub(_escaped, dumps(message, ensure_ascii=False))


def as_lines(text: str) -> str:
    """Several lines as they are, but for what would steer a terminal. Who gives them sees to how they begin."""
    return _UNSAFE_IN_LINES.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def default_line(level: LogLevel, when: datetime, pid: int, file: str, line: int, message: str) -> str:
    return f"{_letter(level)}{when:%m%d %H:%M:%S.%f} {pid} {file}:{line}] {message}"


def iso_line(level: LogLevel, when: datetime, pid: int, file: str, line: int, message: str) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ} {_letter(level)} {pid} {file}:{line}] {message}"


def json_line(level: LogLevel, when: datetime, pid: int, file: str, line: int, message: str) -> str:
    """`message` is a JSON string."""
    return (
        f'{{"time": "{when:%Y-%m-%dT%H:%M:%S.%fZ}", "level": "{level}", "pid": {pid}, '
        f'"file": {quoted(file)}, "line": {line}, "message": {message}}}'
    )


LINES: dict[str, LineOf] = {"default": default_line, "ISO8601": iso_line, "json": json_line}
"""By the names of `--log-format`."""


def _letter(level: LogLevel) -> str:
    """Triton marks verbose lines as information."""
    return "I" if level is LogLevel.VERBOSE else level[0]
