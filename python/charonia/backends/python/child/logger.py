"""`pb_utils.Logger`: models write into the server's log."""

from __future__ import annotations

import os
import sys
from typing import Any

from .runtime import ERROR, INFO, VERBOSE, WARNING, Runtime


def make_logger(runtime: Runtime) -> Any:
    """The class `Logger` for one model; all its methods are static, as models use it without an instance."""

    def write(level: str, message: Any) -> None:
        caller = sys._getframe(2)
        runtime.log(level, str(message), os.path.basename(caller.f_code.co_filename), caller.f_lineno)

    class Logger:
        INFO = INFO
        WARNING = WARNING
        ERROR = ERROR
        VERBOSE = VERBOSE

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

    return Logger
