"""`pb_utils.Logger`: models write into the server's log."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import Any

from .runtime import ERROR, INFO, VERBOSE, WARNING, Runtime


class LogLevel(str, Enum):
    INFO = INFO
    WARNING = WARNING
    ERROR = ERROR
    VERBOSE = VERBOSE


_NAMES = ", ".join(level.value for level in LogLevel)


def make_logger(runtime: Runtime) -> Any:
    """The class `Logger` for one model; all its methods are static, as models use it without an instance.

    They raise TypeError for a message that is no str and a level that is none of the four.
    """

    def write(level: Any, message: Any) -> None:
        try:
            name = LogLevel(level).value
        except ValueError:
            raise TypeError(f"the level of a log message must be one of {_NAMES}, got {level!r}") from None
        if not isinstance(message, str):
            raise TypeError(f"a log message must be a str, got {type(message).__name__}: {message!r}")
        caller = sys._getframe(2)
        runtime.log(name, str(message), os.path.basename(caller.f_code.co_filename), caller.f_lineno)

    class Logger:
        INFO = LogLevel.INFO
        WARNING = LogLevel.WARNING
        ERROR = LogLevel.ERROR
        VERBOSE = LogLevel.VERBOSE

        @staticmethod
        def log(message: str, level: str = INFO) -> None:
            write(level, message)

        @staticmethod
        def log_info(message: str) -> None:
            write(INFO, message)

        @staticmethod
        def log_warn(message: str) -> None:
            write(WARNING, message)

        @staticmethod
        def log_error(message: str) -> None:
            write(ERROR, message)

        @staticmethod
        def log_verbose(message: str) -> None:
            write(VERBOSE, message)

    # Set here: in the class its own name would hide the one outside.
    Logger.LogLevel = LogLevel  # type: ignore[attr-defined]
    return Logger
