"""Replies of one request, taken at the reader's own pace."""

import asyncio
import threading

import numpy as np
import pytest

from charonia.core.reply_queue import ReplyQueue
from charonia.core.request import Reply
from charonia.core.room import Room
from charonia.core.tensor import Tensor
from charonia.testing.requests import KeptReplies, make_request


def reply(value=0, length=1, owned=False):
    array = np.full(length, value, np.uint8)
    return Reply(make_request(KeptReplies()), [Tensor.from_numpy("OUT", array, owned=owned)])


def values(replies):
    return [int(each.outputs[0].numpy()[0]) for each in replies]


def test_replies_keep_their_order():
    queue = ReplyQueue()
    queue.send([reply(1), reply(2)])
    queue.send([reply(3)])
    assert values(queue.take()) == [1, 2, 3]
    assert queue.take() == []


def test_memory_that_is_only_lent_is_copied():
    queue, lent = ReplyQueue(), reply(1)
    array = lent.outputs[0].buffer.host()
    queue.send([lent])
    array[:] = 7
    assert values(queue.take()) == [1]


def test_memory_that_is_given_is_not():
    queue, given = ReplyQueue(), reply(1, owned=True)
    tensor = given.outputs[0]
    queue.send([given])
    assert queue.take()[0].outputs == [tensor]


@pytest.mark.parametrize(("limits", "length"), [({"limit": 2}, 1), ({"limit_bytes": 20}, 10)])
def test_room_ends_with_replies_and_with_bytes(limits, length):
    queue, heard = ReplyQueue(room=Room(**limits)), []
    queue.send([reply(1, length)])
    assert queue.has_room()
    queue.on_room(lambda: heard.append("at once"))
    queue.send([reply(2, length)])
    assert not queue.has_room()
    queue.on_room(lambda: heard.append("later"))
    assert heard == ["at once"]
    assert values(queue.take()) == [1, 2]
    assert heard == ["at once", "later"]
    queue.take()
    assert heard == ["at once", "later"]


def test_after_the_end_there_is_always_room_and_nothing_is_kept():
    queue, heard = ReplyQueue(room=Room(limit=1)), []
    queue.send([reply(1)])
    queue.on_room(lambda: heard.append("room"))
    queue.close()
    assert heard == ["room"]
    queue.send([reply(2)])
    assert queue.has_room()
    assert queue.take() == []


def test_a_thread_waits():
    queue, got = ReplyQueue(), []
    waiter = threading.Thread(target=lambda: got.extend(queue.wait()))
    waiter.start()
    queue.send([reply(5)])
    waiter.join()
    assert values(got) == [5]
    assert queue.wait(0) == []
    queue.close()
    assert queue.wait() == []


def test_a_coroutine_waits():
    async def read():
        queue = ReplyQueue()
        sender = threading.Thread(target=lambda: queue.send([reply(5)]))
        waiting = asyncio.ensure_future(queue.wait_async())
        await asyncio.sleep(0)
        assert not waiting.done()
        sender.start()
        first = await waiting
        sender.join()
        queue.send([reply(6)])
        second = await queue.wait_async()
        waiting = asyncio.ensure_future(queue.wait_async())
        await asyncio.sleep(0)
        queue.close()
        return first, second, await waiting, await queue.wait_async()

    first, second, closed, after = asyncio.run(read())
    assert (values(first), values(second), closed, after) == ([5], [6], [], [])


def test_a_coroutine_that_stops_waiting_loses_nothing():
    async def read():
        queue = ReplyQueue()
        waiting = asyncio.ensure_future(queue.wait_async())
        await asyncio.sleep(0)
        waiting.cancel()
        queue.send([reply(5)])
        await asyncio.wait([waiting])
        return await queue.wait_async()

    assert values(asyncio.run(read())) == [5]


def test_a_loop_that_has_ended_harms_nobody():
    queue = ReplyQueue()

    async def leave():
        task = asyncio.ensure_future(queue.wait_async())
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    queue.send([reply(1)])
    assert values(queue.take()) == [1]
