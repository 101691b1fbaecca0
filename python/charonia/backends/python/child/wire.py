"""Frames between the server and a model's process, over a connected stream socket.

A frame is a header of 16 bytes (kind, correlation id, length of the meta part, length of the payload), the meta part
(plain Python values, by marshal, whose version 2 every interpreter reads) and the payload (tensor bytes).
Two sockets connect the two processes:

    work     parent → child: START, BATCH, ENDED, FINALIZE
             child → parent: DONE, FAILED, INFER (while a batch is executed, of the thread that does so)
    events   child → parent: LOG, CALL, CAST, RESPONSES, INFER, TAKEN, CANCEL, READY
             parent → child: DONE, FAILED (the answers to calls), ROOM, REPLIES, READY
"""

from __future__ import annotations

import marshal
import socket
import struct
import threading
from typing import Any, NamedTuple, Sequence

START = 1  # load the model file; meta: dict of settings
COMPLETE = 2  # run auto_complete_config; meta: model configuration as JSON; answered by DONE with JSON
INITIALIZE = 3  # meta: the args of initialize; answered by DONE with whether the model wants ENDED, and READY
BATCH = 4  # see `columns`
FINALIZE = 5
DONE = 6
FAILED = 7  # meta: the reason, one text
LOG = 8  # meta: (level, message, file, line)
CALL = 9  # meta: (operation, arguments); answered
CAST = 10  # meta: list of (operation, arguments); not answered
RESPONSES = 11  # what response senders send, see `responding`
ROOM = 12  # meta: (list of (key, how many responses of that request were taken), output blocks that are free again)
INFER = 13  # a call of another model, see `calling`
TAKEN = 14
CANCEL = 15
REPLIES = 16
READY = 18  # to the child: call is_ready; meta of the answer: (what it says, why it says nothing or "")
ENDED = 17  # a sequence has ended without a last request; meta: (correlation id, why); not answered

_HEADER = struct.Struct("<IIII")
_HEADER_BYTES = _HEADER.size
_FIRST_BUFFER_BYTES = 128 * 1024
_KEPT_BUFFER_BYTES = 4 * 1024 * 1024
_MARSHAL_VERSION = 2
_LIMIT_BYTES = 2**32 - 1


class LinkClosed(Exception):
    """The other side has gone."""


class Frame(NamedTuple):
    """One frame; `payload` is writable memory that nobody else uses."""

    kind: int
    correlation: int
    meta: Any
    payload: bytearray


def frame_bytes(kind: int, correlation: int, meta: Any, payload: Sequence[Any] = ()) -> bytes:
    """A whole frame. Raises ValueError: it is larger than 4 GiB."""
    data = marshal.dumps(meta, _MARSHAL_VERSION)
    body = b"".join(payload)
    if len(data) > _LIMIT_BYTES or len(body) > _LIMIT_BYTES:
        raise ValueError(f"a frame of {len(data)} + {len(body)} bytes is over the limit of 4 GiB")
    return b"".join((_HEADER.pack(kind, correlation, len(data), len(body)), data, body))


class Channel:
    """One end of a socket. Any thread may send; one thread at a time receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._sending = threading.Lock()
        self._recv_into = sock.recv_into

    @property
    def sending(self) -> bool:
        """Whether some thread, maybe this one, is in the middle of `send`."""
        return self._sending.locked()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: int, correlation: int, meta: Any, payload: Sequence[Any] = ()) -> None:
        """Send one frame; `payload` is a sequence of objects with the buffer protocol.

        Raises:
            LinkClosed: the other side has gone.
            ValueError: the frame is larger than 4 GiB.
        """
        self.send_bytes(frame_bytes(kind, correlation, meta, payload))

    def send_bytes(self, frames: bytes) -> None:
        """Send whole frames. Raises LinkClosed."""
        try:
            with self._sending:
                self._socket.sendall(frames)
        except OSError as error:
            raise LinkClosed(str(error)) from None

    def offer(self, data: Any) -> int:
        """Send as much of these bytes as can be sent without waiting; how many that were. Raises LinkClosed.

        Not beside `send`: a frame must not come into the middle of another.
        """
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LinkClosed(str(error)) from None

    def receive(self) -> Frame:
        """Wait for the next frame. Raises LinkClosed."""
        while True:
            frame = self.parse()
            if frame is not None:
                return frame
            self.fill()

    def fill(self) -> None:
        """Read what has arrived, waiting for something. Raises LinkClosed."""
        try:
            count = self._recv_into(self._view[self._end :])
        except OSError as error:
            raise LinkClosed(str(error)) from None
        if not count:
            raise LinkClosed("the connection has ended")
        self._end += count

    def parse(self) -> Frame | None:
        """The next frame, if all of it has been read."""
        start = self._start
        have = self._end - start
        if have < _HEADER_BYTES:
            self._make_room(_HEADER_BYTES)
            return None
        kind, correlation, meta_bytes, payload_bytes = _HEADER.unpack_from(self._buffer, start)
        need = _HEADER_BYTES + meta_bytes + payload_bytes
        if have < need:
            self._make_room(need)
            return None
        meta_end = start + _HEADER_BYTES + meta_bytes
        meta = marshal.loads(self._view[start + _HEADER_BYTES : meta_end])
        payload = self._buffer[meta_end : meta_end + payload_bytes]
        self._consumed(start + need)
        return Frame(kind, correlation, meta, payload)

    def _consumed(self, start: int) -> None:
        if start < self._end:
            self._start = start
            return
        self._start = self._end = 0
        if len(self._buffer) > _KEPT_BUFFER_BYTES:
            self._replace_buffer(_FIRST_BUFFER_BYTES)

    def _make_room(self, need: int) -> None:
        """Let a frame of `need` bytes fit behind `_start`."""
        if self._start + need <= len(self._buffer) and self._end < len(self._buffer):
            return
        self._replace_buffer(max(len(self._buffer), need))

    def _replace_buffer(self, size: int) -> None:
        rest = self._buffer[self._start : self._end]
        buffer = bytearray(size)
        buffer[: len(rest)] = rest
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._start, self._end = 0, len(rest)

    def shutdown(self) -> None:
        """End both directions: whoever waits on either side wakes up. Safe from any thread, any number of times."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.shutdown()
        self._socket.close()
