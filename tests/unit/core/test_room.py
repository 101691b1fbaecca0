"""Room for responses, and who waits for it."""

import numpy as np
import pytest

from charonia.core.request import Reply
from charonia.core.room import Room
from charonia.core.tensor import Tensor
from charonia.testing.requests import KeptReplies, make_request


def reply(length):
    return Reply(make_request(KeptReplies()), [Tensor.from_numpy("OUT", np.zeros(length, np.uint8), owned=True)])


@pytest.mark.parametrize(("limits", "length"), [({"limit": 2}, 1), ({"limit_bytes": 20}, 10)])
def test_each_listener_is_told_once_when_there_is_room_again(limits, length):
    room, heard = Room(**limits), []
    room.add(reply(length))
    room.on_room(lambda: heard.append("at once"))
    for _ in range(2):
        room.add(reply(length))
    room.on_room(lambda: heard.append("later"))
    room.taken(1)
    assert (heard, room.has_room()) == (["at once"], False)
    room.taken(1)
    room.taken(1)
    assert (heard, room.has_room()) == (["at once", "later"], True)


def test_more_may_be_taken_than_there_are():
    room = Room(limit=1)
    room.add(reply(1))
    room.taken(7)
    assert room.has_room()
    room.add(reply(1))
    assert not room.has_room()


def test_a_listener_may_wait_again():
    room, heard = Room(limit=1), []

    def listener():
        heard.append(room.has_room())
        room.add(reply(1))
        room.on_room(lambda: heard.append("again"))

    room.add(reply(1))
    room.on_room(listener)
    room.taken(1)
    assert heard == [True]
    room.open()
    assert heard == [True, "again"]


def test_without_a_reader_there_is_always_room():
    room, heard = Room(limit=1), []
    room.add(reply(1))
    room.on_room(lambda: heard.append("room"))
    room.open()
    room.add(reply(1))
    assert (heard, room.has_room()) == (["room"], True)
