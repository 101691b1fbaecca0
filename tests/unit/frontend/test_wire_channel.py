"""Replies to the wire: one that can't be sent fails alone, and nothing is raised at the instance that gave it."""

import threading
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest

from charonia.core.errors import BackendError, Code
from charonia.core.log import SilentLog
from charonia.core.request import Reply
from charonia.core.tensor import HostBuffer, Tensor
from charonia.frontend.request_log import RequestLog
from charonia.frontend.wire_channel import WireChannel
from charonia.testing.requests import make_request


@dataclass(frozen=True)
class Call:
    key: int


class Wire:
    """Takes answers as the extension does: all of them, or none if one is malformed."""

    def __init__(self):
        self.answered = {}
        self.failed = {}
        self.order = []
        self.ended = set()

    def reply_batch(self, replies):
        for _, _, _, _, parameters, _ in replies:
            for value in (parameters or {}).values():
                if isinstance(value, int) and value >= 2**64:
                    raise OverflowError("int too big to convert")
        self.order += [("answer", call.key) for call, *_ in replies]
        for call, _, _, outputs, parameters, final in replies:
            if call.key not in self.ended:
                self.answered.setdefault(call.key, []).append((outputs, parameters))
            if final:
                self.ended.add(call.key)

    def fail_batch(self, failures):
        for call, code, message, _, final in failures:
            message.encode()
            self.order.append(("error", call.key))
            if final:
                assert call.key not in self.ended
                self.ended.add(call.key)
            self.failed[call.key] = (code, message)


class BrokenBuffer(HostBuffer):
    def host(self):
        raise RuntimeError("the device is gone")


def sent(*replies):
    wire, forgotten = Wire(), []
    channel = WireChannel(wire, forgotten.append, RequestLog(SilentLog()))
    requests = [make_request(channel, token=Call(key)) for key in range(len(replies))]
    channel.send([reply(request) for reply, request in zip(replies, requests, strict=True)])
    assert forgotten == list(range(len(replies)))
    return wire


def good(request):
    return Reply(request, [Tensor.from_numpy("O", np.zeros((1, 1), np.float32))])


def unsendable_parameter(request):
    return Reply(request, parameters={"n": 2**70})


def unsendable_output(request):
    return Reply(request, [Tensor("O", "FP32", (1,), BrokenBuffer(b"", 4, owned=True))])


@pytest.mark.parametrize("bad", [unsendable_parameter, unsendable_output])
def test_an_answer_that_cannot_be_sent_fails_alone(bad):
    wire = sent(good, bad, good)
    assert sorted(wire.answered) == [0, 2]
    code, message = wire.failed[1]
    assert code == Code.INTERNAL
    assert "the answer of model 'm' can't be sent" in message


def test_errors_reach_the_client_whatever_their_text():
    wire = sent(lambda request: Reply(request, error=BackendError("half a pair: \ud800")))
    assert wire.failed == {0: (Code.INTERNAL, "half a pair: \\ud800")}


def streamed(*makers):
    """The wire after the replies of one decoupled request, made by `makers`, were sent at once; and the request."""
    wire = Wire()
    channel = WireChannel(wire, lambda key: None, RequestLog(SilentLog()))
    request = make_request(channel, token=Call(0))
    channel.send([maker(request) for maker in makers])
    return wire, request


def one(parameters):
    return lambda request: Reply(request, parameters=parameters, final=False)


def end(request):
    return Reply(request, has_response=False)


def test_the_bare_end_has_no_outputs():
    wire, request = streamed(one({"n": 1}), one({"n": 2}), end)
    assert wire.answered == {0: [([], {"n": 1}), ([], {"n": 2}), (None, None)]}
    assert not request.cancelled


@pytest.mark.parametrize("last", [end, one({"n": 3})])
def test_a_response_that_cannot_be_sent_ends_its_request_and_the_others_are_sent_once(last):
    wire, request = streamed(one({"n": 1}), one({"n": 2**70}), last)
    assert wire.answered == {0: [([], {"n": 1})]}
    assert wire.failed[0][0] == Code.INTERNAL
    assert request.cancelled, "its model is told that nobody wants more"


def test_an_error_that_is_not_final_may_be_followed_by_more():
    def error(request):
        return Reply(request, error=BackendError("boom"), final=False)

    wire, request = streamed(error, end)
    assert wire.failed == {0: (Code.INTERNAL, "boom")}
    assert not request.cancelled


def test_errors_and_answers_of_a_batch_leave_in_their_order():
    def error(request):
        return Reply(request, error=BackendError("boom"), final=False)

    wire, _ = streamed(one({"n": 1}), error, one({"n": 2}), error, end)
    assert [kind for kind, _ in wire.order] == ["answer", "error", "answer", "error", "answer"]


def answer(key, array=None, *, owned=True, final=True):
    request = make_request(None)
    request.token = Call(key)
    outputs = [] if array is None else [Tensor.from_numpy("OUTPUT0", array, owned=owned)]
    return Reply(request, outputs, final=final)


def channel_of(wire):
    return WireChannel(wire, lambda key: None, RequestLog(SilentLog()))


def test_answers_that_are_gathered_leave_together_and_in_their_order():
    wire = Wire()
    channel = channel_of(wire)
    with channel.gathering():
        for key in range(3):
            channel.send([answer(key)])
        assert wire.order == []
    assert wire.order == [("answer", key) for key in range(3)]
    channel.send([answer(3)])
    assert wire.order[-1] == ("answer", 3)


@pytest.mark.parametrize("reply", [{"array": np.zeros(4), "owned": False}, {"final": False}])
def test_what_may_not_wait_takes_the_others_along(reply):
    wire = Wire()
    channel = channel_of(wire)
    with channel.gathering():
        channel.send([answer(1, np.zeros(4))])
        channel.send([answer(2, **reply)])
        assert [key for _, key in wire.order] == [1, 2]


def test_no_answer_waits_for_many():
    wire = Wire()
    channel = channel_of(wire)
    with channel.gathering():
        for key in range(20):
            channel.send([answer(key)])
        assert len(wire.order) == 16


def test_what_other_threads_send_does_not_wait():
    wire = Wire()
    channel = channel_of(wire)
    with channel.gathering():
        channel.send([answer(1)])
        other = threading.Thread(target=channel.send, args=([answer(2)],))
        other.start()
        other.join()
        assert wire.order == [("answer", 2)]


def test_what_was_gathered_leaves_when_something_fails():
    wire = Wire()
    channel = channel_of(wire)
    with suppress(ZeroDivisionError), channel.gathering():
        channel.send([answer(1)])
        raise ZeroDivisionError
    assert wire.order == [("answer", 1)]
