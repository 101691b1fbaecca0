"""The server's log: Triton's line format, ISO 8601 times, or JSON lines, on standard error or in a file.

Each Server has one of its own. Times are UTC, as Triton's.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps
from types import FrameType

from charonia.core.log import LogLevel
from charonia.observe.sink import Sink, open_file_sink, stderr_sink


@dataclass(slots=True)
class LogSettings:
    """What may be changed while the server runs; `format` is one of those of `--log-format`."""

    info: bool = True
    warning: bool = True
    error: bool = True
    verbose_level: int = 0
    format: str = "default"
    file: str = ""


class ServerLog:
    """Implements `charonia.core.log.Log`; any thread may call it.

    Args:
        settings: read at every message, so a change counts from the next one on.
        sink: where finished lines go; by default the settings' file, or standard error without one.
        now: seconds since the epoch.

    Raises:
        OSError: the log file can't be opened.
    """

    def __init__(
        self, settings: LogSettings | None = None, sink: Sink | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings or LogSettings()
        self._sink = sink or (open_file_sink(self.settings.file) if self.settings.file else stderr_sink())
        self._now = now
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def info(self, message: str) -> None:
        if self.settings.info:
            self._write(LogLevel.INFO, message, *_place(sys._getframe(1)))

    def warning(self, message: str) -> None:
        if self.settings.warning:
            self._write(LogLevel.WARNING, message, *_place(sys._getframe(1)))

    def error(self, message: str) -> None:
        if self.settings.error:
            self._write(LogLevel.ERROR, message, *_place(sys._getframe(1)))

    def verbose(self, message: str, level: int = 1) -> None:
        if self.settings.verbose_level >= level:
            self._write(LogLevel.VERBOSE, message, *_place(sys._getframe(1)))

    def record(self, level: LogLevel, message: str, file: str, line: int) -> None:
        if self._enabled(level):
            self._write(level, message, file, line)

    def table(self, table: str) -> None:
        """A table of several lines: an empty message, then the table as it is (JSON: one message that holds it)."""
        if not self.settings.info:
            return
        file, line = _place(sys._getframe(1))
        if self.settings.format == "json":
            self._write(LogLevel.INFO, table, file, line)
        else:
            self._write(LogLevel.INFO, "", file, line, after=table)

    def close(self) -> None:
        """Close the log file, if there is one. Later messages go nowhere."""
        with self._lock:
            self._sink.close()

    def _enabled(self, level: LogLevel) -> bool:
        settings = self.settings
        if level is LogLevel.VERBOSE:
            return settings.verbose_level >= 1
        return {LogLevel.INFO: settings.info, LogLevel.WARNING: settings.warning, LogLevel.ERROR: settings.error}[level]

    def _write(self, level: LogLevel, message: str, file: str, line: int, after: str = "") -> None:
        text = _LINES.get(self.settings.format, _default_line)(
            level, datetime.fromtimestamp(self._now(), UTC), self._pid, file, line, message
        )
        data = f"{text}\n{after}\n\n" if after else f"{text}\n"
        with self._lock:
            self._sink.write(data.encode(errors="backslashreplace"))


def _place(frame: FrameType) -> tuple[str, int]:
    return os.path.basename(frame.f_code.co_filename), frame.f_lineno


def _letter(level: LogLevel) -> str:
    """Triton marks verbose lines as information."""
    return "I" if level is LogLevel.VERBOSE else level[0]


def _quoted(message: str) -> str:
    """Escaped, so that a message can't forge a line of its own."""
    return dumps(message, ensure_ascii=False)


def _default_line(level: LogLevel, when: datetime, pid: int, file: str, line: int, message: str) -> str:
    return f"{_letter(level)}{when:%m%d %H:%M:%S.%f} {pid} {file}:{line}] {_quoted(message)}"


def _iso_line(level: LogLevel, when: datetime, pid: int, file: str, line: int, message: str) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ} {_letter(level)} {pid} {file}:{line}] {_quoted(message)}"


def _json_line(level: LogLevel, when: datetime, pid: int, file: str, line: int, message: str) -> str:
    fields = {
        "time": f"{when:%Y-%m-%dT%H:%M:%S.%fZ}",
        "level": str(level),
        "pid": pid,
        "file": file,
        "line": line,
        "message": message,
    }
    return dumps(fields, ensure_ascii=False)


_LINES = {"default": _default_line, "ISO8601": _iso_line, "json": _json_line}
