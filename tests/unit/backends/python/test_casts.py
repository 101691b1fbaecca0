"""What a model tells the server without waiting leaves its process at once, also in the middle of an execution."""

import socket
import threading

import pytest

from charonia.backends.python.child import wire
from charonia.backends.python.child.arena import Arena
from charonia.backends.python.child.link import ChildRuntime
from charonia.backends.python.memory import shared_file


@pytest.fixture
def link():
    """The runtime, its channel, and the server's end."""
    ours, its = socket.socketpair()
    ours.settimeout(20)
    channel = wire.Channel(its)
    arena = Arena(shared_file("test"))
    yield ChildRuntime(channel, channel, arena, arena.region, arena.region), channel, wire.Channel(ours)
    ours.close()
    its.close()


def test_casts_leave_at_once(link):
    runtime, _, server = link
    runtime.cast("metric.set", 1, 2.0)
    frame = server.receive()
    assert (frame.kind, frame.meta) == (wire.CAST, [("metric.set", (1, 2.0))])
    runtime.cast("metric.remove", 1)
    assert server.receive().meta == [("metric.remove", (1,))]


def test_a_removal_in_the_middle_of_a_send_waits_for_the_next_occasion(link):
    runtime, channel, server = link
    with channel._sending:  # as the garbage collector finds it
        runtime.cast("metric.remove", 1)
    runtime.cast("metric.set", 2, 3.0)
    assert server.receive().meta == [("metric.remove", (1,)), ("metric.set", (2, 3.0))]


def test_an_answer_waits_until_the_server_has_taken_the_casts(link):
    runtime, _, server = link
    runtime.settle_casts()  # nothing to wait for: nobody answers
    runtime.cast("metric.set", 1, 2.0)
    waiting = threading.Thread(target=runtime.settle_casts)
    waiting.start()
    assert server.receive().kind == wire.CAST
    assert server.receive().meta == ("settle", ())
    server.send(wire.DONE, 1, None)
    waiting.join(20)
    assert not waiting.is_alive()
    runtime.settle_casts()
