import asyncio
import queue
import threading

import pytest

from charonia.frontend.control.loop import ControlLoop
from charonia.testing.calls import FakeHttpCall, FakeRpcCall

WAIT_S = 10


class FakeWire:
    """`take_control` blocks until a test puts a batch; `shutdown` makes it return [] from then on."""

    def __init__(self):
        self.batches = queue.Queue()
        self.asked = queue.Queue()
        self.woken = queue.Queue()

    def take_control(self, max_items, timeout_s):
        self.asked.put(max_items)
        batch = self.batches.get()
        if isinstance(batch, BaseException):
            raise batch
        if batch is None:
            self.batches.put(None)
            return []
        return batch

    def wake_control(self):
        self.woken.put(None)
        self.batches.put([])

    def shutdown(self):
        self.batches.put(None)


class FakeHttp:
    """`/hold` is answered after `/let-go`."""

    def __init__(self):
        self.calls = queue.Queue()
        self.held = asyncio.Event()
        self.news = queue.Queue()

    async def serve(self, call):
        self.calls.put((call, threading.current_thread().name))
        if call.path == "/bug":
            raise ValueError("boom")
        if call.path == "/let-go":
            self.held.set()
        if call.path == "/hold":
            await self.held.wait()

    def told(self, keys):
        self.news.put((keys, threading.current_thread().name))


class FakeRpc:
    def __init__(self):
        self.calls = queue.Queue()

    async def serve(self, call):
        self.calls.put(call)


@pytest.fixture
def parts(log):
    class Parts:
        wire, http, rpc, deaths = FakeWire(), FakeHttp(), FakeRpc(), queue.Queue()

    Parts.loop = ControlLoop(
        Parts.wire, Parts.http, Parts.rpc, log, lambda name, error: Parts.deaths.put((name, error)), max_open_calls=2
    )
    Parts.loop.start()
    yield Parts
    Parts.wire.shutdown()
    assert Parts.loop.stop(WAIT_S)


def test_calls_reach_their_server_on_the_loops_thread(parts):
    http, rpc = FakeHttpCall(), FakeRpcCall("/x")
    parts.wire.batches.put([http, rpc])
    assert parts.http.calls.get(timeout=WAIT_S) == (http, "control-loop")
    assert parts.rpc.calls.get(timeout=WAIT_S) is rpc


def test_no_more_is_taken_than_may_be_open(parts):
    assert parts.wire.asked.get(timeout=WAIT_S) == 2
    parts.wire.batches.put([FakeHttpCall(path="/hold")])
    assert parts.wire.asked.get(timeout=WAIT_S) == 1
    parts.wire.batches.put([FakeHttpCall(path="/let-go")])
    assert parts.wire.asked.get(timeout=WAIT_S) in (0, 1, 2)
    parts.wire.batches.put([FakeRpcCall("/x")])
    parts.rpc.calls.get(timeout=WAIT_S)


def test_news_of_calls_in_work_are_taken_although_no_more_may_be_open(parts):
    assert parts.wire.asked.get(timeout=WAIT_S) == 2
    parts.wire.batches.put([FakeHttpCall(path="/hold"), FakeHttpCall(path="/hold"), 7])
    assert parts.http.news.get(timeout=WAIT_S) == ([7], "control-loop")
    assert parts.wire.asked.get(timeout=WAIT_S) == 0
    parts.wire.batches.put([8, 9])
    assert parts.http.news.get(timeout=WAIT_S) == ([8, 9], "control-loop")
    assert parts.wire.asked.get(timeout=WAIT_S) == 0
    parts.loop._call_loop(parts.http.held.set)
    parts.wire.woken.get(timeout=WAIT_S)
    assert parts.wire.asked.get(timeout=WAIT_S) > 0


def test_a_fault_in_one_call_is_logged_and_the_next_is_served(parts, log):
    parts.wire.batches.put([FakeHttpCall(path="/bug"), FakeHttpCall(path="/fine")])
    assert parts.http.calls.get(timeout=WAIT_S)[0].path == "/bug"
    assert parts.http.calls.get(timeout=WAIT_S)[0].path == "/fine"
    parts.wire.batches.put([FakeRpcCall("/x")])
    parts.rpc.calls.get(timeout=WAIT_S)
    assert "boom" in log.errors[0]


def test_the_death_of_a_thread_is_told(parts):
    error = OSError("the wire broke")
    parts.wire.batches.put(error)
    assert parts.deaths.get(timeout=WAIT_S) == ("control-take", error)


def test_stop_drops_calls_in_work(parts):
    parts.wire.batches.put([FakeHttpCall(path="/hold")])
    parts.http.calls.get(timeout=WAIT_S)
    parts.wire.shutdown()
    assert parts.loop.stop(WAIT_S)
    assert parts.deaths.empty()


def test_stop_says_when_the_taker_is_not_woken(log):
    wire = FakeWire()
    loop = ControlLoop(wire, FakeHttp(), FakeRpc(), log, lambda name, error: None)
    loop.start()
    wire.asked.get(timeout=WAIT_S)
    assert not loop.stop(0.01)
    wire.shutdown()
    assert loop.stop(WAIT_S)


def test_a_loop_that_never_started_stops(log):
    assert ControlLoop(FakeWire(), FakeHttp(), FakeRpc(), log, lambda name, error: None).stop(0)


class FakeDirect:
    """Takes the calls of `/direct`."""

    def __init__(self):
        self.taken, self.news, self.closed = queue.Queue(), queue.Queue(), False

    def takes(self, call):
        if call.path != "/direct":
            return False
        self.taken.put((call, threading.current_thread().name))
        return True

    def told(self, keys):
        self.news.put(keys)

    def close(self):
        self.closed = True


def test_calls_that_need_no_event_loop_take_no_place(log):
    wire, http, direct = FakeWire(), FakeHttp(), FakeDirect()
    loop = ControlLoop(wire, http, FakeRpc(), log, lambda name, error: None, direct=direct, max_open_calls=2)
    loop.start()
    calls = [FakeHttpCall(path="/direct"), FakeHttpCall(path="/other"), FakeHttpCall(path="/direct")]
    wire.batches.put(calls)
    assert [direct.taken.get(timeout=WAIT_S) for _ in range(2)] == [
        (calls[0], "control-take"),
        (calls[2], "control-take"),
    ]
    assert http.calls.get(timeout=WAIT_S)[0] is calls[1]
    wire.batches.put([calls[0].key])
    assert direct.news.get(timeout=WAIT_S) == [calls[0].key]
    assert http.news.get(timeout=WAIT_S)[0] == [calls[0].key]
    rpc = FakeRpcCall("/inference.GRPCInferenceService/ServerMetadata")
    wire.batches.put([rpc])
    wire.shutdown()
    assert loop.stop(WAIT_S)
    assert direct.closed
    assert direct.taken.empty()
