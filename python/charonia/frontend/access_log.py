"""The access log: a line for each request. The wire makes the lines, and this thread writes them."""

from collections.abc import Callable

from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log
from charonia.core.protocols import OnDeath
from charonia.core.threads import SupervisedThread
from charonia.observe.sink import FileSink, Sink, stdout_sink
from charonia.options import STANDARD_OUTPUT

Take = Callable[[float], tuple[bytes, int]]
"""`WireServer.take_access`."""

_FOREVER_S = 86400.0


class AccessLog:
    """Writes lines to `sink` until it is closed."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._closing = False
        self._thread: SupervisedThread | None = None

    def start(self, take: Take, log: Log, on_death: OnDeath) -> None:
        self._thread = SupervisedThread("access-log", lambda: self._run(take, log), on_death)
        self._thread.start()

    def reopen(self, log: Log) -> None:
        """Go on in a new file, if there is one that was renamed. Where it can't be opened, the log says so."""
        try:
            self._sink.reopen()
        except OSError as error:
            log.error(f"the file of the access log can't be opened again, the old one is kept: {error.strerror}")

    def close(self, timeout_s: float) -> None:
        """After the wire's shutdown, when takes come back at once: write what is left."""
        self._closing = True
        if self._thread is not None:
            self._thread.finish(timeout_s)

    def _run(self, take: Take, log: Log) -> None:
        lines = b"begin"
        while lines or not self._closing:
            lines, dropped = take(_FOREVER_S)
            if dropped:
                log.warning(f"{dropped} lines of the access log were dropped: they can't be written fast enough")
            if lines:
                self._write(lines, log)
        _tell_lost(self._sink, log)
        self._sink.close()

    def _write(self, lines: bytes, log: Log) -> None:
        lost_before = self._sink.lost
        if self._sink.write(lines):
            _tell_lost(self._sink, log)
        elif not lost_before:
            log.error(f"the access log can't be written: {self._sink.why}; its lines are lost until it can")


def _tell_lost(sink: Sink, log: Log) -> None:
    if sink.lost:
        log.warning(f"lines of the access log that could not be written: {sink.lost} ({sink.why})")
        sink.lost = 0


def open_access_log(path: str) -> AccessLog | None:
    """The log to that file, or to standard output for `-`; None without a path.

    Raises:
        InvalidArgumentError: the file can't be opened.
    """
    if not path:
        return None
    try:
        return AccessLog(stdout_sink() if path == STANDARD_OUTPUT else FileSink(path))
    except OSError as error:
        raise InvalidArgumentError(f"--access-log={path} can't be written: {error.strerror}") from None
