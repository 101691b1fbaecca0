"""The log that the options of a server ask for."""

import logging
import os

from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log, LogLevel
from charonia.observe.log import LogSettings, ServerLog
from charonia.observe.sink import FileSink, stderr_sink, stdout_sink
from charonia.options import ServerOptions

_ESCAPE = "TRITON_SERVER_ESCAPE_LOG_MESSAGES"
"""Triton's variable: "0" writes messages as they are, with line breaks, whoever they are by."""


def open_log(options: ServerOptions, *, own_process: bool = False) -> ServerLog:
    """The log, opened.

    Args:
        own_process: whether standard output is the server's too: then warnings and errors go to standard error and the
            rest to standard output, as Triton does it; else everything goes to standard error.

    Raises:
        InvalidArgumentError: the log file can't be opened.
    """
    settings = LogSettings(
        info=options.log_info,
        warning=options.log_warning,
        error=options.log_error,
        verbose_level=options.log_verbose,
        format=options.log_format,
        file=options.log_file,
    )
    escape = os.environ.get(_ESCAPE) != "0"
    if not options.log_file:
        return ServerLog(settings, stderr_sink(), details=stdout_sink() if own_process else None, escape=escape)
    try:
        return ServerLog(settings, FileSink(options.log_file), escape=escape)
    except OSError as error:
        raise InvalidArgumentError(f"--log-file={options.log_file} can't be written: {error.strerror}") from None


class PythonLogging(logging.Handler):
    """Warnings and errors of libraries and inline models that use Python's `logging`, as lines of the server's log.

    As `logging.lastResort` it gets what no other handler takes, which Python writes to standard error otherwise.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock that handlers have: the log has its own, and a thread that holds this one may come to log by
        a finalizer, and wait for the other."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)  # as handlers do: whoever logs does not fail by it
            return
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARNING
        self._log.record(level, f"{record.name}: {text}", record.filename, record.lineno)
