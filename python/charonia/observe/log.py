"""The server's log: which messages are written, and where.

Each Server has one of its own. Times are UTC, as Triton's.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import FrameType
from typing import TypeVar

from charonia.core.log import LogLevel
from charonia.observe.log_lines import LINES, as_lines, quoted
from charonia.observe.sink import Sink, stderr_sink

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogLevels:
    """Which messages are written; `verbose_level` 0 for no details."""

    info: bool = True
    warning: bool = True
    error: bool = True
    verbose_level: int = 0

    def includes(self, level: LogLevel) -> bool:
        if level is LogLevel.VERBOSE:
            return self.verbose_level >= 1
        return {LogLevel.INFO: self.info, LogLevel.WARNING: self.warning, LogLevel.ERROR: self.error}[level]


@dataclass(frozen=True, slots=True)
class LogSettings(LogLevels):
    """All settings of a log; `format` is one of those of `--log-format`, `file` the file that it goes to, or ""."""

    format: str = "default"
    file: str = ""


@dataclass(frozen=True, slots=True)
class LevelChanges:
    """What shall differ from other levels; None for what shall not."""

    info: bool | None = None
    warning: bool | None = None
    error: bool | None = None
    verbose_level: int | None = None

    def over(self, levels: LogLevels) -> LogLevels:
        """`levels` with these changes."""
        return LogLevels(
            levels.info if self.info is None else self.info,
            levels.warning if self.warning is None else self.warning,
            levels.error if self.error is None else self.error,
            levels.verbose_level if self.verbose_level is None else self.verbose_level,
        )

    def after(self, earlier: "LevelChanges", cleared: Set[str]) -> "LevelChanges":
        """What was said earlier, with these changes over it, and without the fields that are `cleared`."""

        def last(field: str, now: T | None, before: T | None) -> T | None:
            return before if now is None and field not in cleared else now

        return LevelChanges(
            last("info", self.info, earlier.info),
            last("warning", self.warning, earlier.warning),
            last("error", self.error, earlier.error),
            last("verbose_level", self.verbose_level, earlier.verbose_level),
        )


NO_CHANGES = LevelChanges()


class _LeveledLog:
    """Implements `charonia.core.log.Log` by `_levels`, which is read at every message, and `_write`."""

    @property
    def _levels(self) -> LogLevels:
        raise NotImplementedError

    def _write(self, level: LogLevel, message: str, file: str, line: int, after: str = "") -> None:
        """`after`: lines below the message, as they are; in JSON they are part of it."""
        raise NotImplementedError

    def info(self, message: str) -> None:
        if self._levels.info:
            self._write(LogLevel.INFO, message, *_place(sys._getframe(1)))

    def warning(self, message: str) -> None:
        if self._levels.warning:
            self._write(LogLevel.WARNING, message, *_place(sys._getframe(1)))

    def error(self, message: str, below: str = "") -> None:
        if self._levels.error:
            self._write(LogLevel.ERROR, message, *_place(sys._getframe(1)), below)

    def verbose(self, message: str, level: int = 1) -> None:
        if self._levels.verbose_level >= level:
            self._write(LogLevel.VERBOSE, message, *_place(sys._getframe(1)))

    def record(self, level: LogLevel, message: str, file: str, line: int) -> None:
        if self._levels.includes(level):
            self._write(level, message, file, line)


class ServerLog(_LeveledLog):
    """The log of one server; any thread may call it. Changes count from the next message on.

    Args:
        settings: what to begin with.
        sink: where finished lines go; by default standard error.
        details: where informational and verbose lines go, when that is another place.
        now: seconds since the epoch.
        escape: whether messages are written as JSON strings; without, a message may hold anything, also lines.

    Attributes:
        highest_verbosity: the verbose level of the server, or of a model, whichever is the highest.
    """

    def __init__(
        self,
        settings: LogSettings | None = None,
        sink: Sink | None = None,
        now: Callable[[], float] = time.time,
        *,
        details: Sink | None = None,
        escape: bool = True,
    ) -> None:
        self.settings = settings or LogSettings()
        self._sink = sink or stderr_sink()
        self._details = details or self._sink
        self._now = now
        self._escape = escape
        # A thread that writes may have to collect garbage, and a finalizer of that may log: asyncio's tasks do.
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._own: dict[str, LevelChanges] = {}
        self._models: dict[str, LogLevels] = {}
        self.highest_verbosity = self.settings.verbose_level
        self._listener: Callable[[int], None] = lambda verbosity: None

    @property
    def _levels(self) -> LogLevels:
        return self.settings

    def change(self, settings: LogSettings) -> None:
        """Use these settings from now on. The file stays the one that was opened."""
        with self._lock:
            self.settings = replace(settings, file=self.settings.file)
            self._apply()

    def change_model(self, model: str, changes: LevelChanges) -> None:
        """Have the levels of one model differ from the server's; by NO_CHANGES they don't any more."""
        with self._lock:
            self._own[model] = changes
            if changes == NO_CHANGES:
                del self._own[model]
            self._apply()

    def _apply(self) -> None:
        self._models = {model: own.over(self.settings) for model, own in self._own.items()}
        self.highest_verbosity = max(each.verbose_level for each in (self.settings, *self._models.values()))
        self._listener(self.highest_verbosity)

    def on_verbosity(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with `highest_verbosity`, now and whenever levels are changed."""
        with self._lock:
            self._listener = listener
            listener(self.highest_verbosity)

    def changes_of(self, model: str) -> LevelChanges:
        """How the levels of this model differ from the server's."""
        return self._own.get(model, NO_CHANGES)

    def levels_of(self, model: str) -> LogLevels:
        """What counts for this model."""
        return self._models.get(model, self.settings)

    def about(self, model: str) -> "ModelLog":
        """The same log for lines about one model, by that model's levels."""
        return ModelLog(self, model)

    def table(self, table: str) -> None:
        """A table of several lines: an empty message, then the table as it is (JSON: one message that holds it)."""
        if self.settings.info:
            self._write(LogLevel.INFO, "", *_place(sys._getframe(1)), f"{table}\n")

    def reopen(self) -> None:
        """Go on in a new log file, if there is one that was renamed. Where it can't be opened, the old one says so."""
        try:
            self._sink.reopen()
        except OSError as error:
            self.error(
                f"the log file '{self.settings.file}' can't be opened again, the old one is kept: {error.strerror}"
            )

    def close(self) -> None:
        """Close the log file, if there is one. Later messages go nowhere."""
        with self._lock:
            self._sink.close()
            self._details.close()

    def _write(self, level: LogLevel, message: str, file: str, line: int, after: str = "") -> None:
        data = self._formatted(level, message, file, line, after)
        sink = self._sink if level in (LogLevel.WARNING, LogLevel.ERROR) else self._details
        with self._lock:
            if sink.lost:
                self._tell_lost(sink)
            sink.write(data)

    def _formatted(self, level: LogLevel, message: str, file: str, line: int, after: str = "") -> bytes:
        style = self.settings.format
        if style == "json" and after:
            message, after = f"{message}\n{after}".strip("\n"), ""
        shown = quoted(message) if self._escape or style == "json" else message
        text = LINES[style](level, datetime.fromtimestamp(self._now(), UTC), self._pid, file, line, shown)
        data = f"{text}\n{as_lines(after) if self._escape else after}\n" if after else f"{text}\n"
        return data.encode(errors="backslashreplace")

    def _tell_lost(self, sink: Sink) -> None:
        """Where they are missing, once something can be written there again."""
        lost = sink.lost
        message = f"lines of the log that could not be written here: {lost} ({sink.why})"
        told = sink.write(self._formatted(LogLevel.WARNING, message, *_place(sys._getframe())))
        sink.lost = 0 if told else lost


class ModelLog(_LeveledLog):
    """Lines about one model, in the log of its server."""

    def __init__(self, log: ServerLog, model: str) -> None:
        self._log = log
        self._model = model

    @property
    def _levels(self) -> LogLevels:
        return self._log.levels_of(self._model)

    @property
    def highest_verbosity(self) -> int:
        return self._levels.verbose_level

    def about(self, model: str) -> "ModelLog":
        return self._log.about(model)

    def _write(self, level: LogLevel, message: str, file: str, line: int, after: str = "") -> None:
        self._log._write(level, message, file, line, after)


def _place(frame: FrameType) -> tuple[str, int]:
    return os.path.basename(frame.f_code.co_filename), frame.f_lineno
