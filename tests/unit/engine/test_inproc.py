"""Requests from the same process: futures and streams, with an engine that answers as the test says."""

import asyncio
import gc
import threading

import numpy as np
import pytest

from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.core.reply_queue import ReplyQueue
from charonia.core.request import SEQUENCE_START, Reply
from charonia.core.tensor import Tensor
from charonia.engine.inproc import InferOptions, InprocClient
from charonia.testing.clock import ManualClock


class Engine:
    """Answers each request by `script`: numbers are responses, errors errors, "end" is the bare end."""

    def __init__(self, *script):
        self.script = script
        self.requests = []
        self.cancelled = threading.Event()

    def submit(self, request):
        request.version = "1"
        request.on_cancel(self.cancelled.set)
        self.requests.append(request)
        for what in self.script:
            self.answer(what)

    def answer(self, what, *, final=False):
        request = self.requests[-1]
        if what == "end":
            reply = Reply(request, has_response=False)
        elif isinstance(what, Exception):
            reply = Reply(request, error=what, final=final)
        else:
            reply = Reply(request, [Tensor.from_numpy("OUT", np.array([what]))], None, {"n": what}, final)
        if not reply.final or request.settle():
            request.channel.send([reply])


@pytest.fixture
def client():
    made = []

    def of(engine):
        made.append(InprocClient(engine, ManualClock()))
        return made[-1]

    yield of
    for each in made:
        each.close()


def number(result):
    assert result.outputs["OUT"].numpy()[0] == result.parameters["n"]
    return result.parameters["n"]


def stream(client, engine, **options):
    timeout_s = options.pop("timeout_s", None)
    return client(engine).stream("m", (), number, InferOptions(**options), timeout_s)


async def collect(responses):
    return [each async for each in responses]


def both_ways(make):
    """What is read by `for`, and by `async for`."""
    read, read_async = list(make()), asyncio.run(collect(make()))
    assert read == read_async
    return read


@pytest.mark.parametrize(("script", "numbers"), [(["end"], []), ([1, "end"], [1]), ([1, 2, 3, "end"], [1, 2, 3])])
def test_responses_are_iterated_over(client, script, numbers):
    assert both_ways(lambda: stream(client, Engine(*script))) == numbers


def test_the_last_response_may_be_the_end(client):
    engine = Engine()
    responses = stream(client, engine)
    engine.answer(1)
    engine.answer(2, final=True)
    assert list(responses) == [1, 2]
    assert list(responses) == []


@pytest.mark.parametrize("before", [[], [1, 2]])
def test_an_error_is_raised_where_its_response_would_have_come(client, before):
    async def async_for(responses, seen):
        async for each in responses:
            seen.append(each)

    for way in ("for", "async for"):
        engine = Engine(*before)
        responses, seen = stream(client, engine), []
        engine.answer(BackendError("broken"), final=True)
        with pytest.raises(BackendError, match="broken"):
            seen.extend(responses) if way == "for" else asyncio.run(async_for(responses, seen))
        assert seen == before
        assert list(responses) == []


def test_an_error_need_not_be_the_end(client):
    responses = stream(client, Engine(1, BackendError("not this one"), 2, "end"))
    assert next(responses) == 1
    with pytest.raises(BackendError):
        next(responses)
    assert list(responses) == [2]


def test_what_the_request_says(client):
    engine = Engine("end")
    list(stream(client, engine, id="q", priority=2, timeout_us=3, correlation_id="s", flags=SEQUENCE_START))
    (request,) = engine.requests
    assert (request.id, request.priority, request.timeout_us) == ("q", 2, 3)
    assert (request.correlation_id, request.flags) == ("s", SEQUENCE_START)
    assert request.takes_stream
    client(engine).submit("m", ())
    assert not engine.requests[-1].takes_stream


def test_a_reader_that_is_behind_leaves_no_room(client):
    engine = Engine(*range(64))
    responses = stream(client, engine)
    flow, heard = engine.requests[0].flow, []
    assert not flow.has_room()
    flow.on_room(lambda: heard.append("room"))
    assert next(responses) == 0
    assert heard == ["room"]


def test_cancel_ends_the_request_and_the_loop(client):
    engine = Engine(1, 2)
    responses, seen = stream(client, engine), []
    for each in responses:
        seen.append(each)
        responses.cancel()
        responses.cancel()
    assert seen == [1]
    assert engine.requests[0].cancelled
    assert engine.requests[0].flow.has_room()


def test_cancel_wakes_who_waits(client):
    def cancel_soon(responses, waiting):
        waiting.wait()
        responses.cancel()

    engine = Engine()
    responses, waiting = stream(client, engine), threading.Event()
    other = threading.Thread(target=cancel_soon, args=(responses, waiting))
    other.start()
    waiting.set()
    assert list(responses) == []
    other.join()

    async def run():
        responses = stream(client, Engine())
        reading = asyncio.ensure_future(collect(responses))
        await asyncio.sleep(0)
        responses.cancel()
        return await reading

    assert asyncio.run(run()) == []


@pytest.mark.parametrize("script", [(1, 2), (1, 2, "end"), ()])
def test_another_thread_may_cancel_while_the_reader_takes_what_has_come(client, monkeypatch, script):
    wait = ReplyQueue.wait

    def cancelled_meanwhile(replies, timeout_s):
        came = wait(replies, 0)
        responses.cancel()
        return came

    monkeypatch.setattr(ReplyQueue, "wait", cancelled_meanwhile)
    responses = stream(client, Engine(*script))
    assert list(responses) == []
    assert list(responses) == []


def test_leaving_the_block_ends_the_request(client):
    engine = Engine(1, 2)
    with stream(client, engine) as responses:
        assert next(responses) == 1
    assert engine.requests[0].cancelled


def test_leaving_the_loop_ends_the_request(client):
    engine = Engine(1, 2)
    for _ in stream(client, engine):
        break
    gc.collect()
    assert engine.cancelled.wait(20)


def test_a_stream_that_was_read_to_its_end_is_not_cancelled(client):
    engine = Engine(1, "end")
    used = client(engine)
    with used.stream("m", (), number) as responses:
        assert list(responses) == [1]
    del responses
    used.close()
    assert not engine.requests[0].cancelled


def test_a_response_that_does_not_come_in_time(client):
    engine = Engine(1)
    responses = stream(client, engine, timeout_s=0)
    assert next(responses) == 1
    with pytest.raises(TimeoutError, match="model 'm' gave no response within 0 s"):
        next(responses)
    assert engine.requests[0].cancelled
    assert list(responses) == []

    engine = Engine()
    with pytest.raises(TimeoutError):
        asyncio.run(collect(stream(client, engine, timeout_s=0)))
    assert engine.requests[0].cancelled


def test_a_task_that_is_cancelled_may_read_on(client):
    async def run():
        engine = Engine()
        responses = stream(client, engine)
        reading = asyncio.ensure_future(anext(responses))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        engine.answer(1)
        engine.answer("end")
        return await collect(responses)

    assert asyncio.run(run()) == [1]


def test_the_future_of_one_answer(client):
    engine = Engine()
    future = client(engine).submit("m", ())
    engine.answer(7, final=True)
    assert number(future.result()) == 7
    failed = client(engine).submit("m", ())
    engine.answer(InvalidArgumentError("wrong"), final=True)
    with pytest.raises(InvalidArgumentError, match="wrong"):
        failed.result()


def test_a_future_that_is_cancelled_ends_its_request(client):
    engine = Engine()
    future = client(engine).submit("m", ())
    assert future.cancel()
    assert engine.requests[0].cancelled
    engine.answer(7, final=True)
    assert future.cancelled()
