"""preserve_ordering: replies leave in the order of queueing."""

import numpy as np
import pytest

from charonia.core.errors import CancelledError, QueueFullError
from charonia.core.request import Reply, refuse
from charonia.core.tensor import Tensor
from charonia.scheduling.ordering import ReplyOrder
from charonia.testing.requests import KeptReplies, make_request


def admitted(count):
    order, channel = ReplyOrder(), KeptReplies()
    requests = [make_request(channel) for _ in range(count)]
    for request in requests:
        order.enqueue(request, lambda _: None)
    return order, channel, requests


def answer(request, value=0.0):
    array = np.array([[value]], np.float32)
    request.channel.send([Reply(request, [Tensor.from_numpy("O", array)])])
    return array


def sent(channel):
    return [reply.request for reply in channel.replies]


def test_a_later_answer_waits_for_the_earlier_ones():
    _, channel, (first, second, third) = admitted(3)
    answer(third)
    answer(second)
    assert sent(channel) == []
    answer(first)
    assert sent(channel) == [first, second, third]


def test_a_held_answer_keeps_its_values():
    _, channel, (first, second) = admitted(2)
    reused = answer(second, 7.0)
    reused[:] = 0
    answer(first)
    assert channel.of(second).outputs[0].numpy().tolist() == [[7.0]]


def test_refusals_go_at_once_and_hold_nobody_up():
    _, channel, (first, second, third) = admitted(3)
    second.channel.send([Reply(second, error=CancelledError("gone"))])
    assert sent(channel) == [second]
    answer(third)
    answer(first)
    assert sent(channel) == [second, first, third]


def test_a_request_that_the_queue_refused_has_no_place():
    order, channel, (first,) = admitted(1)
    refused = make_request(channel)

    def full(_):
        raise QueueFullError("full")

    with pytest.raises(QueueFullError):
        order.enqueue(refused, full)
    assert refused.channel is channel
    last = make_request(channel)
    order.enqueue(last, lambda _: None)
    answer(last)
    answer(first)
    assert sent(channel) == [first, last]


def test_a_bug_while_queueing_leaves_no_place_that_others_wait_behind():
    order, channel, _ = admitted(0)

    def broken(_):
        raise ZeroDivisionError("a bug of ours")

    with pytest.raises(ZeroDivisionError):
        order.enqueue(make_request(channel), broken)
    next_one = make_request(channel)
    order.enqueue(next_one, lambda _: None)
    answer(next_one)
    assert sent(channel) == [next_one]


def test_who_gets_a_reply_may_send_another_one_here():
    """An ensemble that fails cancels what it still has waiting in the same model."""
    order, seen = ReplyOrder(), []

    class Failing:
        def send(self, replies):
            seen.append("first")
            refuse(second, CancelledError("no longer wanted"))
            third.channel.send([Reply(third)])

    requests = [make_request(KeptReplies()) for _ in range(3)]
    first, second, third = requests
    first.channel = Failing()
    second.channel = third.channel = kept = KeptReplies()
    for request in requests:
        order.enqueue(request, lambda request: None)
    first.channel.send([Reply(first)])
    assert seen == ["first"]
    assert [reply.request for reply in kept.replies] == [second, third]
