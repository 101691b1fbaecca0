"""Frames to a process from threads that must not wait for it."""

import socket
import threading

import pytest

from charonia.backends.python import outbox as outbox_module
from charonia.backends.python.child import wire
from charonia.backends.python.outbox import Outbox
from charonia.backends.python.work_channel import WorkChannel


@pytest.fixture
def ends():
    ours, its = socket.socketpair()
    yield ours, wire.Channel(its)
    ours.close()
    its.close()


def test_frames_leave_at_once_and_in_order(ends):
    ours, process = ends
    outbox = Outbox(wire.Channel(ours), lambda: None)
    for number in range(3):
        outbox.post(wire.ROOM, number, [number], [b"x" * number])
    assert [process.receive() for _ in range(3)] == [(wire.ROOM, n, [n], bytearray(b"x" * n)) for n in range(3)]


def test_what_the_socket_does_not_take_is_kept_and_flushed(ends):
    ours, process = ends
    outbox = Outbox(wire.Channel(ours), lambda: None)
    stuck = []
    outbox.stuck = lambda: stuck.append(True)
    for number in range(200):
        outbox.post(wire.ROOM, number, None, [bytes(10_000)])
    assert stuck == [True]
    received = []

    def read():
        while len(received) < 201:
            received.append(process.receive().correlation)

    reader = threading.Thread(target=read)
    reader.start()
    while not outbox.flush():
        pass
    outbox.post(wire.ROOM, 200, None)
    while not outbox.flush():  # the reader may be behind still
        pass
    reader.join(20)
    assert received == list(range(201))


def test_a_process_that_never_reads_is_given_up(ends, monkeypatch):
    ours, _ = ends
    monkeypatch.setattr(outbox_module, "_LIMIT_BYTES", 1_000_000)
    given_up = []
    outbox = Outbox(wire.Channel(ours), lambda: given_up.append(True))
    for _ in range(1000):
        outbox.post(wire.ROOM, 0, None, [bytes(10_000)])
    assert given_up == [True]
    assert outbox._kept_bytes == 0


def test_nobody_is_told_of_a_process_that_has_gone(ends):
    ours, process = ends
    outbox = Outbox(wire.Channel(ours), lambda: pytest.fail("not overflowed"))
    process.close()
    outbox.post(wire.ROOM, 0, None)
    assert outbox.flush()
    outbox.close()
    outbox.post(wire.ROOM, 0, None)


def test_notices_come_before_the_next_batch_also_those_that_were_sent_in_part(ends):
    ours, process = ends
    work = WorkChannel(ours)
    count = 2000
    for number in range(count):
        work.notice(wire.ENDED, ("x" * 1000, str(number)))
    assert work._notices or work._rest
    sender = threading.Thread(target=work.send, args=(wire.BATCH, 1, None))
    sender.start()
    assert [process.receive().meta[1] for _ in range(count)] == [str(number) for number in range(count)]
    assert process.receive().kind == wire.BATCH
    sender.join(20)
    work.notice(wire.ENDED, (1, "last"))
    assert process.receive().meta == (1, "last")
