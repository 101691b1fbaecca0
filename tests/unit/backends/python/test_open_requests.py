"""The requests that a process has open: their keys and cancel flags, and rescheduling."""

import sys
import threading
from collections import deque
from queue import SimpleQueue

import numpy as np
import pytest

from charonia.backends.python.child.responding import LAST
from charonia.backends.python.open_requests import CANCEL_SLOTS, OpenRequests
from charonia.core.errors import BackendError, UnavailableError, UnsupportedError
from charonia.core.tensor import Tensor
from charonia.testing.batch import KeptBatch, make_batch

X = {"X": np.zeros(1, np.float32)}


class KeptFrames:
    def __init__(self):
        self.frames = []

    def post(self, kind, correlation, meta):
        self.frames.append(meta)


@pytest.fixture
def opened():
    return OpenRequests(memoryview(bytearray(CANCEL_SLOTS)), None, KeptFrames(), deque())


def batch_of(count):
    return make_batch(*[X] * count)


def test_a_long_lived_request_keeps_its_flag(opened):
    long_lived = batch_of(1)
    key = opened.begin(long_lived)
    opened.executed(())
    seen = set()
    for _ in range(70):
        first = opened.begin(batch_of(1000))
        seen.update(key % CANCEL_SLOTS for key in range(first, first + 1000))
        opened.executed(range(1000))
    assert key % CANCEL_SLOTS not in seen
    assert len(opened) == 1
    long_lived.requests[0].cancel()
    assert opened._flags[key % CANCEL_SLOTS] == 1
    assert sum(opened._flags) == 1


def test_requests_may_end_while_others_begin(opened):
    """They end on another thread, the oldest first or not."""
    begun, failures = SimpleQueue(), []

    def end():
        while (key := begun.get()) is not None:
            opened._end(key)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ender = threading.Thread(target=end)
    ender.start()
    try:
        batch = batch_of(1)
        for _ in range(20000):
            begun.put(opened.begin(batch))
    except RuntimeError as error:
        failures.append(error)
    finally:
        sys.setswitchinterval(interval)
        begun.put(None)
        ender.join()
    assert failures == []
    assert len(opened) == 0


def test_more_open_requests_than_flags_are_refused(opened):
    for _ in range(64):
        opened.begin(batch_of(1024))
        opened.executed(())
    with pytest.raises(UnavailableError, match="65536 requests are open"):
        opened.begin(batch_of(1))


def test_a_cancelled_request_that_is_over_flags_nobody(opened):
    batch = batch_of(1)
    opened.begin(batch)
    opened.executed([0])
    batch.requests[0].cancel()
    assert not any(opened._flags)


class UnreadableFirst:
    """An AnswerReader that can't read the first response of a frame."""

    def response(self, columns, payload, start):
        if start == 0:
            raise ValueError("cannot reshape")
        return None, [Tensor.from_numpy("Y", np.ones(1, np.float32), owned=True)]


def test_a_response_that_can_not_be_read_takes_no_others_with_it():
    opened = OpenRequests(memoryview(bytearray(CANCEL_SLOTS)), UnreadableFirst(), KeptFrames(), deque())
    batch = batch_of(2)
    first = opened.begin(batch)
    opened.executed(())
    items = [(first + index, LAST, None, None, ("a column",), index) for index in range(2)]
    assert opened.deliver(items, bytearray()) == [batch, batch]
    batch.flush()
    assert str(batch.error(0)) == "ValueError: cannot reshape"
    assert batch.outputs(1)["Y"].tolist() == [1]
    assert len(opened) == 0


def test_a_batch_that_executes_is_not_failed_before_its_answer_was_looked_for(opened):
    held, executing = batch_of(1), batch_of(2)
    opened.begin(held)
    opened.executed(())
    opened.begin(executing)
    opened.fail_all(BackendError("gone"))
    assert str(held.error()) == "gone"
    assert executing.answers == [None, None]
    opened.executed([0])
    assert executing.answers[0] is None
    assert str(executing.error(1)) == "gone"


AGAIN = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            if request.request_id() == "again":
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        return [None if r.request_id() == "again" else self.response(1) for r in requests]

    def response(self, number):
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([number], np.float32))])
"""
AGAIN_IN_A_STREAM = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([number], np.float32))]))
            if request.request_id() == "again":
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            else:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.mark.parametrize("decoupled", [False, True], ids=["plain", "decoupled"])
def test_a_request_may_be_rescheduled(workshop, decoupled):
    served = workshop.serve(AGAIN_IN_A_STREAM if decoupled else AGAIN, decoupled=decoupled)
    batch = make_batch(X, X)
    batch.requests[0].id = "again"
    for _ in range(3):
        again = KeptBatch(batch.requests[:1]).run(served.instance)
        assert again.rescheduled == batch.requests[:1]
        assert len(again.responses[0]) == (3 if decoupled else 0)
    batch.run(served.instance)
    assert batch.rescheduled == batch.requests[:1]
    assert len(batch.responses[1]) == (3 if decoupled else 1)
    assert len(served.instance._life.link._open) == 0


@pytest.mark.parametrize("decoupled", [False, True], ids=["plain", "decoupled"])
def test_a_model_that_may_not_reschedule_is_told(workshop, decoupled):
    class NotIterative(KeptBatch):
        def reschedule(self, request):
            raise UnsupportedError("not iterative")

    served = workshop.serve(AGAIN_IN_A_STREAM if decoupled else AGAIN, decoupled=decoupled)
    batch = NotIterative(make_batch(X, id="again").requests).run(served.instance)
    assert "not iterative" in str(batch.error())
