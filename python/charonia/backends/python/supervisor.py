"""One thread for all processes of a backend: it waits for what they say beside their answers, and for their ends."""

import os
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from charonia.backends.python.child.wire import Frame, LinkClosed
from charonia.backends.python.process import ChildProcess
from charonia.core.log import Log

_STOP_WAIT_S = 5.0


class Owner(Protocol):
    """Who is told. Called on the supervisor's thread: must not block."""

    def on_event(self, child: ChildProcess, frame: Frame) -> None: ...
    def on_quiet(self, child: ChildProcess) -> None:
        """All that had come has been told by `on_event`."""

    def on_exit(self, child: ChildProcess) -> None: ...


class Supervisor:
    """Watches processes from `watch` until their end has been reported. The thread starts with the first one."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._selector = selectors.DefaultSelector()
        self._wake_here, self._wake_there = socket.socketpair()
        self._selector.register(self._wake_here, selectors.EVENT_READ, self._woken)
        self._lock = threading.Lock()
        self._asked: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._closing = False

    def watch(self, child: ChildProcess, owner: Owner) -> None:
        watch = _Watch(self._selector, child, owner, self._log)
        child.outbox.stuck = partial(self._ask, watch.write)
        self._ask(watch.begin)

    def _ask(self, what: Callable[[], None]) -> None:
        """Have the thread do something."""
        with self._lock:
            self._asked.append(what)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="charonia python supervisor", daemon=True)
                self._thread.start()
        with suppress(BlockingIOError):  # it is woken already
            self._wake_there.send(b"x", socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Stop the thread once every process has ended: all must have been killed or told to end."""
        with self._lock:
            self._closing = True
            thread = self._thread
        self._wake_there.send(b"x")
        if thread is not None:
            thread.join(_STOP_WAIT_S)
            if thread.is_alive():
                self._log.error("a killed process of a Python model has not ended, it is no longer watched")
                return
        self._selector.close()
        self._wake_here.close()
        self._wake_there.close()

    def _run(self) -> None:
        while not self._closing or len(self._selector.get_map()) > 1:  # the first one is what wakes this thread
            for key, ready in self._selector.select():
                self._attempt(partial(key.data, ready))

    def _attempt(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:  # one model's trouble must not leave the others unwatched
            self._log.error(f"supervising Python models failed: {type(error).__name__}: {error}")

    def _woken(self, ready: int) -> None:
        self._wake_here.recv(4096)
        with self._lock:
            asked, self._asked = self._asked, []
        for what in asked:
            self._attempt(what)


class _Watch:
    """One process under supervision: its events channel, and a descriptor that tells its end."""

    def __init__(self, selector: selectors.BaseSelector, child: ChildProcess, owner: Owner, log: Log) -> None:
        self._selector = selector
        self._child = child
        self._owner = owner
        self._log = log
        self._events_fd = child.events.fileno()
        self._end_fd: int | None = None
        self._listening = False

    def begin(self) -> None:
        self._selector.register(self._events_fd, selectors.EVENT_READ, self._on_events)
        self._listening = True
        if hasattr(os, "pidfd_open"):
            try:
                self._end_fd = os.pidfd_open(self._child.popen.pid)
            except OSError:  # an old kernel: the channel's end has to do
                return
            self._selector.register(self._end_fd, selectors.EVENT_READ, self._on_end)

    def write(self) -> None:
        """Send what the process did not take at once, as it takes it."""
        if self._listening and not self._child.outbox.flush():
            self._selector.modify(self._events_fd, selectors.EVENT_READ | selectors.EVENT_WRITE, self._on_events)

    def _on_events(self, ready: int) -> None:
        if ready & selectors.EVENT_WRITE and self._child.outbox.flush():
            self._selector.modify(self._events_fd, selectors.EVENT_READ, self._on_events)
        if ready & selectors.EVENT_READ:
            self._read()

    def _read(self) -> None:
        try:
            self._child.events.fill()
        except LinkClosed:
            self._stop_listening()
            if self._end_fd is None:
                self._on_end()
            return
        self._tell()

    def _tell(self) -> None:
        """Pass on every frame that is there: nothing would come back for those behind one that can't be taken."""
        while (frame := self._child.events.parse()) is not None:
            try:
                self._owner.on_event(self._child, frame)
            except Exception as error:
                self._log.error(
                    f"instance '{self._child.name}': a frame of kind {frame.kind} from its process can't be taken: "
                    f"{type(error).__name__}: {error}"
                )
        self._owner.on_quiet(self._child)

    def _on_end(self, ready: int = 0) -> None:
        if self._end_fd is not None:
            self._selector.unregister(self._end_fd)
            os.close(self._end_fd)
        self._read_rest()
        self._child.kill_group()
        self._child.popen.wait()
        self._child.outbox.close()
        self._child.work.shutdown()  # a process that the model forked may hold the other end open
        self._child.exited.set()
        self._owner.on_exit(self._child)

    def _read_rest(self) -> None:
        """What the process said last, often why it ended."""
        if not self._listening:
            return
        self._child.events.shutdown()
        try:
            while True:
                self._child.events.fill()
                self._tell()
        except LinkClosed:
            self._stop_listening()

    def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            self._selector.unregister(self._events_fd)
