"""`charonia serve`: a server that lives until a signal ends it. Gives the process's exit code."""

import ctypes
import logging
import os
import select
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from charonia.cli.parse import ParsedFlags
from charonia.core.errors import CharoniaError

if TYPE_CHECKING:
    from charonia.server import Server

OK = 0
FAILED = 1
# An inline model that computes in pure Python took JSON throughput from 47k/s to 2.8k at Python's 5 ms, to 19k at this.
_SWITCH_INTERVAL_S = 1e-4
# Numbers of glibc's malloc.h, and what of freed memory is kept: blocks up to the first, in all up to the second.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_KEPT_BYTES = 32 << 20
_MOST_KEPT_BYTES = 256 << 20
_STOPPING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Waits for the first SIGTERM or SIGINT; another one ends the delay of a stop, later ones change nothing.

    SIGHUP is left to the system, unless there are log files to open again. Then it means that, except when it comes
    because the terminal has gone that the server was started in, without `nohup`: that ends the wait too.

    A pipe, not an Event: a signal's handler may run while the main thread holds the Event's own lock. The interpreter
    writes to it by itself, the signal's number: one that another thread gets, or that comes just before the wait,
    doesn't interrupt it.

    Args:
        reopens: whether there are log files.

    Attributes:
        number: of the signal that has ended the wait, 0 before.
        on_hangup: opens the files again.
    """

    def __init__(self, reopens: bool) -> None:
        self.number = 0
        self.on_hangup: Callable[[], None] = _do_nothing
        self._dies_with_terminal = _has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in _STOPPING:
            signal.signal(number, self._note)
        if reopens:
            signal.signal(signal.SIGHUP, _do_nothing)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number

    def set(self) -> None:
        """End the wait, also without a signal."""
        os.write(self._write, b"\0")

    def wait(self) -> None:
        while not self._next_ends():
            pass

    def wait_for_another(self, timeout_s: float) -> bool:
        """Whether one came in this time."""
        end_s = time.monotonic() + timeout_s
        while select.select([self._read], (), (), max(0.0, end_s - time.monotonic()))[0]:
            if self._next_ends():
                return True
        return False

    def _next_ends(self) -> bool:
        """Wait for a signal; whether it ends the wait for one."""
        (number,) = os.read(self._read, 1)
        if number != signal.SIGHUP:
            return True
        if self._dies_with_terminal and not _has_terminal():
            self.number = self.number or number
            return True
        self.on_hangup()
        return False


def _do_nothing(*_: object) -> None:
    pass


def _has_terminal() -> bool:
    """Whether this process is of the session of a terminal that is still there."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def run_server(parsed: ParsedFlags) -> int:
    """Serve until told to stop. 0 after an orderly stop; 1 if the start failed or the stop took too long."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    _keep_freed_memory()
    signals = Signals(reopens=parsed.options.writes_log_files)
    from charonia.logs import PythonLogging, open_log
    from charonia.server import Server

    try:
        server = Server(parsed.options, open_log(parsed.options, own_process=True))
    except (CharoniaError, OSError) as error:
        print(f"error: creating server: {error}", file=sys.stderr)
        return FAILED
    logging.lastResort = PythonLogging(server.log)
    signals.on_hangup = lambda: _reopen_logs(server)
    for remark in parsed.remarks:
        server.log.info(remark)
    code = _serve(server, signals)
    server.log.close()
    if code != OK:
        _leave_now(code)
    return code


def _keep_freed_memory() -> None:
    """Have glibc use the memory of large tensors again instead of returning it to the system after each.

    A fresh page costs a fault: an inline model that returns 4 MB took 4.4 ms, and 0.26 ms with this. Other C libraries
    have no such call and go without.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT_BYTES)


def _serve(server: "Server", signals: Signals) -> int:
    start = _Start(server, signals)
    try:
        server.open()
    except CharoniaError as error:
        server.log.error(str(error))
        return FAILED
    except ModuleNotFoundError as error:
        if error.name != "charonia._wire":
            raise
        server.log.error("the extension charonia._wire is not built; in the source folder run: pip install .[cpu]")
        return FAILED
    start.begin()
    signals.wait()
    if start.failure:
        server.log.error(f"error: creating server: {start.failure}")
    else:
        server.log.info(f"Signal ({signals.number}) received: stopping")
        _delay_stop(server, signals)
    server.begin_stop()
    loading_ended = start.join(server.time_to_stop_s)
    in_order = server.stop() and loading_ended
    if not in_order:
        server.log.error("exit timeout expired: something was still busy, exiting immediately")
    return OK if in_order and not start.failure else FAILED


def _reopen_logs(server: "Server") -> None:
    server.reopen_logs()
    server.log.info("Signal (1) received: log files are opened again")


def _delay_stop(server: "Server", signals: Signals) -> None:
    """Serve on for `--drain-delay-secs`: a balancer that still sends requests here finds no closed port."""
    delay_s = server.options.drain_delay_secs
    if not delay_s:
        return
    server.announce_stop()
    server.log.info(f"Not ready any more; requests are accepted for {delay_s} s, unless there is another signal")
    if signals.wait_for_another(delay_s):
        server.log.info("Another signal: the delay is over")


class _Start:
    """Loads the models on a thread of its own, so that a signal is heard meanwhile."""

    def __init__(self, server: "Server", signals: Signals) -> None:
        self._server = server
        self._signals = signals
        self.failure = ""
        self._thread = threading.Thread(target=self._load, name="load-all", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _load(self) -> None:
        server = self._server
        try:
            report = server.load()
        except CharoniaError as error:
            if server.options.exit_on_error:
                self._fail(str(error))
            else:
                server.stay_up_dead(str(error))
                server.log_listeners()
            return
        except Exception as error:
            self._fail(repr(error))
            return
        if report.complete:
            server.log_listeners()
        elif self._signals.number:
            return  # stopped while loading: that explains it
        elif server.options.exit_on_error:
            self._fail(_why_not_started(server.options.model_repository))
        else:
            server.log.warning(f"models that were asked for and are not served: {', '.join(report.names)}")
            server.log_listeners()

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._signals.set()


def _why_not_started(repositories: Sequence[str]) -> str:
    check = f"charonia check {shlex.join(repositories)}"
    return (
        f"failed to load all models; the table says why, and '{check}' shows all that is wrong "
        "(--exit-on-error=false serves those that loaded)"
    )


def _leave_now(code: int) -> None:
    """End the process without waiting for threads that are stuck in a model's code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
