"""Where log lines go, written so that a reader who stalls or leaves, or a full disk, can't hold the server up."""

import os
import select
import stat
import sys
import threading
from typing import Protocol, TextIO

# What a pipe that polls as writable takes without blocking.
_PIPE_CHUNK_BYTES = getattr(select, "PIPE_BUF", 512)
# How long a line may wait for a reader that was keeping up until now; after that its lines are lost and counted.
_STALL_GRACE_MS = 500
_NOBODY_READS = "nobody reads them"


class Sink(Protocol):
    """Takes whole lines, one caller at a time. Never raises, never blocks for long.

    Attributes:
        lost: lines that could not be written. Whoever writes tells it, and sets it to 0.
        why: what kept the last of them from being written.
    """

    lost: int
    why: str

    def write(self, data: bytes) -> bool:
        """False if they are lost: they count in `lost` then."""

    def reopen(self) -> None:
        """Go on in a new file, where the one that was opened has been renamed. Any thread may call it.

        Raises:
            OSError: it can't be opened; what comes goes on in the old one.
        """

    def close(self) -> None: ...


class DescriptorSink:
    """Writes to a file descriptor. A pipe without a reader loses the lines, and so does one with a stalled reader or a
    full disk. What comes after half a line begins a line of its own.
    """

    def __init__(self, descriptor: int, *, owned: bool, grace_ms: int = _STALL_GRACE_MS) -> None:
        self._descriptor = descriptor
        self._owned = owned
        self._grace_ms = grace_ms
        self._poll = _poll_of(descriptor)
        self._torn = False
        self.lost = 0
        self.why = ""

    def write(self, data: bytes) -> bool:
        whole = b"\n" + data if self._torn else data
        sent = self._send(memoryview(whole))
        if sent:
            self._torn = whole[sent - 1 : sent] != b"\n"
        self.lost += whole[max(sent, len(whole) - len(data)) :].count(b"\n")
        return sent == len(whole)

    def reopen(self) -> None:
        """Nothing has another name."""

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if self._owned and descriptor >= 0:
            os.close(descriptor)

    def _send(self, data: memoryview) -> int:
        """How many bytes were written."""
        sent = 0
        try:
            while sent < len(data):
                if not self._writable(0 if self.lost else self._grace_ms):
                    self.why = _NOBODY_READS
                    break
                end = sent + _PIPE_CHUNK_BYTES if self._poll else len(data)
                sent += os.write(self._descriptor, data[sent:end])
        except OSError as error:
            self.why = error.strerror or str(error)
        return sent

    def _writable(self, timeout_ms: int) -> bool:
        return self._poll is None or bool(self._poll.poll(timeout_ms))


def _poll_of(descriptor: int) -> "select.poll | None":
    """A poll for pipes, sockets and terminals; None for files, and where the platform has no poll."""
    if not hasattr(select, "poll"):
        return None
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
    except OSError:
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return poll


def stdout_sink() -> DescriptorSink:
    """Standard output of this process; its descriptor stays open."""
    return _stream_sink(sys.stdout, 1)


def stderr_sink() -> DescriptorSink:
    """Standard error of this process; its descriptor stays open."""
    return _stream_sink(sys.stderr, 2)


def _stream_sink(stream: TextIO | None, otherwise: int) -> DescriptorSink:
    try:
        return DescriptorSink(stream.fileno() if stream is not None else otherwise, owned=False)
    except (OSError, ValueError, AttributeError):
        return DescriptorSink(otherwise, owned=False)  # replaced by something without a descriptor, or closed


class FileSink(DescriptorSink):
    """Appends to the file at `path`, made if it isn't there.

    Raises:
        OSError: it can't be opened; a pipe that nobody reads can't.
    """

    def __init__(self, path: str) -> None:
        super().__init__(_open(path), owned=True)
        self._path = os.path.abspath(path)
        # For `reopen` beside a write. A finalizer may come to write within a write.
        self._lock = threading.RLock()

    def write(self, data: bytes) -> bool:
        with self._lock:
            return super().write(data)

    def reopen(self) -> None:
        opened = _open(self._path)
        with self._lock:
            old = self._descriptor
            if old < 0:  # closed
                os.close(opened)
                return
            self._torn = self._torn and os.path.sameopenfile(old, opened)
            self._descriptor, self._poll = opened, _poll_of(opened)
            os.close(old)

    def close(self) -> None:
        with self._lock:
            super().close()


def _open(path: str) -> int:
    # Else the open of such a pipe waits for a reader, maybe for ever.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, 0o644)
    os.set_blocking(descriptor, True)
    return descriptor
