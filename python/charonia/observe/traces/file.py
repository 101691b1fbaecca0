"""Triton's trace file: `FILE` holds everything, or `FILE.0`, `FILE.1`, ... a number of traces each.

Used by one thread. Each file is a whole JSON document whenever nothing is being written to it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from charonia.core.log import Log
from charonia.observe.traces.as_json import records_of
from charonia.observe.traces.record import Trace
from charonia.observe.traces.setting import TraceSetting

# Traces that wait for their file to be full. Their number is the user's choice; memory is not.
_MAX_PENDING_BYTES = 64 << 20


class TraceFile:
    """Writes arrays of records. What can't be written is told once, and lost."""

    def __init__(self, path: str, log: Log) -> None:
        self._path = path
        self._log = log
        self._file: IO[bytes] | None = None
        self._index = 0
        self._failure = ""

    def append(self, records: bytes) -> None:
        """To `FILE` itself, which is made anew by the first call."""
        try:
            if self._file is None:
                self._file = open(self._path, "wb", buffering=0, opener=_opened)  # noqa: SIM115 - until `close`
            _extend(self._file.fileno(), records)
        except OSError as error:
            self._fail(self._path, error)

    def write_next(self, records: bytes) -> None:
        """To the next one of `FILE.0`, `FILE.1`, ..."""
        path = f"{self._path}.{self._index}"
        self._index += 1
        try:
            with open(path, "wb") as file:
                file.write(b"[" + records + b"]")
        except OSError as error:
            self._fail(path, error)

    def close(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._fail(self._path, error)

    def _fail(self, path: str, error: OSError) -> None:
        reason = error.strerror or repr(error)
        if reason != self._failure:
            self._failure = reason
            self._log.error(f"failed creating trace file '{path}', traces are lost: {reason}")


def _opened(path: str, flags: int) -> int:
    """Without waiting for a reader of a pipe, maybe for ever."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def _extend(file: int, records: bytes) -> None:
    """Add to the array that is in the file, if there is one.

    Raises:
        OSError: they can't all be written; the file is as before.
    """
    end = os.fstat(file).st_size
    try:
        _write(file, b"," + records + b"]" if end else b"[" + records + b"]", max(end - 1, 0))
    except OSError:
        with suppress(OSError):  # of what is no file, such as a pipe
            os.ftruncate(file, end)
            if end:
                _write(file, b"]", end - 1)
        raise


def _write(file: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        count = os.pwrite(file, rest, offset)
        rest, offset = rest[count:], offset + count


class FileSink:
    """Where finished traces go in Triton's mode, see `writer.Sink`.

    Traces of a setting without a limit are written as they come. Those of one with a count or a log frequency wait
    until that many are there; those that are left when nothing more comes of a setting go to `FILE`, or, under a log
    frequency, to another numbered file.
    """

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self._pending: dict[TraceSetting, list[bytes]] = {}

    def take(self, trace: Trace) -> None:
        setting, records = trace.setting, records_of(trace)
        setting.finished()
        if setting.values.count < 0 and not setting.log_frequency:
            self._append([records])
            return
        pending = self._pending.setdefault(setting, [])
        pending.append(records)
        full = setting.log_frequency and len(pending) >= setting.log_frequency
        if full or setting.used_up or sum(map(len, pending)) > _MAX_PENDING_BYTES:
            self._write_next(self._pending.pop(setting))
        elif setting.over:
            self._flush(setting)

    def retired(self, setting: TraceSetting) -> None:
        if setting.over:
            self._flush(setting)

    def close(self) -> None:
        for setting in list(self._pending):
            self._flush(setting)
        self._file.close()

    def _flush(self, setting: TraceSetting) -> None:
        """Nothing more comes of it."""
        pending = self._pending.pop(setting, None)
        if pending and setting.log_frequency:
            self._write_next(pending)
        elif pending:
            self._append(pending)

    def _append(self, traces: Sequence[bytes]) -> None:
        if records := _joined(traces):
            self._file.append(records)

    def _write_next(self, traces: Sequence[bytes]) -> None:
        if records := _joined(traces):
            self._file.write_next(records)


def _joined(traces: Sequence[bytes]) -> bytes:
    """Where only tensors are traced, a call that was refused before it was a request has no records."""
    return b",".join(filter(None, traces))
