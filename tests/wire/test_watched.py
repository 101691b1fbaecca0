"""Calls whose end is watched: who asks is told once that the connection has done with a call, and when."""

import threading

import pytest

from charonia._wire import InferCall, monotonic_ns
from tests.wire.served import PATIENCE_S, Served, _echo, json_body, message, read_answer, request, stub


class Watching(Served):
    """Watches every call; `news` gives the keys that are told."""

    def _answer(self):
        self.calls, self.news, self.told = [], [], threading.Semaphore(0)
        while items := self.wire.take(64, PATIENCE_S * 10):
            for item in items:
                if isinstance(item, InferCall):
                    assert item.watch()
                    self.calls.append(item)
                    if item.header("x-hold") is None:
                        self.wire.reply_batch([_echo(item)])
                else:
                    self.news.append(item)
                self.told.release()

    def wait(self, count):
        for _ in range(count):
            assert self.told.acquire(timeout=PATIENCE_S)


@pytest.fixture
def served():
    with Watching() as made:
        made.wire.stamp(True)
        yield made


def test_an_answer_over_http(served):
    before = monotonic_ns()
    with served.connect() as connection:
        connection.sendall(request(json_body([1.5])))
        read_answer(connection)
    served.wait(2)
    (call,) = served.calls
    assert served.news == [call.key]
    assert before < call.begun_ns <= call.arrival_ns < call.sent[0] <= call.sent[1] <= monotonic_ns()


def test_a_large_answer_is_sent_when_its_last_byte_is_on_its_way(served):
    with served.connect() as connection:
        connection.sendall(request(json_body([1.5] * 500_000)))
        read_answer(connection)
    served.wait(2)
    assert served.calls[0].sent[1] > 0


def test_answers_over_grpc(served):
    with served.channel() as channel:
        stub(channel).ModelInfer(message([1.0]), timeout=PATIENCE_S)
        list(stub(channel).ModelStreamInfer(iter([message([1.0]), message([2.0])]), timeout=PATIENCE_S))
    served.wait(6)
    assert sorted(served.news) == sorted(call.key for call in served.calls)
    assert all(call.begun_ns and call.sent[0] for call in served.calls)


def test_a_client_that_leaves(served):
    with served.connect() as connection:
        connection.sendall(request(json_body([1.5]), "X-Hold: 1"))
        served.wait(1)
        (call,) = served.calls
        assert call.sent is None
    served.wait(2)
    assert served.news == [call.key, call.key], "cancelled, and done with"
    assert call.sent == (0, 0)
    assert not call.watch()


def test_a_deadline_that_passes(served):
    with served.channel() as channel, pytest.raises(Exception, match="DEADLINE"):
        stub(channel).ModelInfer(message([1.0]), timeout=0.2, metadata=[("x-hold", "1")])
    served.wait(3)
    assert served.calls[0].sent is not None


def test_without_stamping_there_is_no_beginning(served):
    served.wire.stamp(False)
    with served.connect() as connection:
        connection.sendall(request(json_body([1.5])))
        read_answer(connection)
    served.wait(2)
    assert served.calls[0].begun_ns == 0
