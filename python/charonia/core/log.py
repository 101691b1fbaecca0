"""What a part of the server needs of the server's log. `charonia.observe.log.ServerLog` is the real one.

A message is one finished sentence; the caller's file and line are added by the log. Nothing here blocks or raises.
"""

from enum import StrEnum
from typing import Protocol


class LogLevel(StrEnum):
    """Severity; the first letter is the one in Triton's line format."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    VERBOSE = "VERBOSE"


class Log(Protocol):
    """Takes messages from any thread."""

    @property
    def highest_verbosity(self) -> int:
        """The highest level at which anything is written by `verbose`: what is costly to say is asked for first."""
        ...

    def about(self, model: str) -> "Log":
        """The same log for lines about one model, which may have levels of its own."""
        ...

    def info(self, message: str) -> None: ...
    def warning(self, message: str) -> None: ...
    def error(self, message: str, below: str = "") -> None:
        """`below`: lines that are written under the message as they are, such as a line of a file with a caret. They
        hold nothing that a terminal acts on, and are indented, so that none looks like a message."""
        ...

    def verbose(self, message: str, level: int = 1) -> None:
        """Written when `--log-verbose` is at least `level`."""
        ...

    def record(self, level: LogLevel, message: str, file: str, line: int) -> None:
        """A message that comes from elsewhere: `file` (its name only) and `line` say where."""
        ...


class SilentLog:
    """Takes everything and writes nothing: for tests, and for parts that are used without a server."""

    highest_verbosity = 0

    def about(self, model: str) -> "SilentLog":
        return self

    def info(self, message: str) -> None: ...
    def warning(self, message: str) -> None: ...
    def error(self, message: str, below: str = "") -> None: ...
    def verbose(self, message: str, level: int = 1) -> None: ...
    def record(self, level: LogLevel, message: str, file: str, line: int) -> None: ...
