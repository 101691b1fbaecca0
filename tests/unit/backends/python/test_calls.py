"""What `exec` and `async_exec` give the model, over a runtime that is driven by hand."""

import asyncio
import gc
import threading

import numpy as np
import pytest

from charonia.backends.python.child import calls
from charonia.backends.python.child.errors import TritonError, TritonModelException
from charonia.backends.python.child.messages import InferenceRequest, request_class
from charonia.backends.python.child.pb_utils import build_module
from charonia.backends.python.child.responses import InferenceResponse
from charonia.backends.python.child.tensor import Tensor

PATIENCE_S = 20


class Outgoing:
    """One call, from the runtime's side."""

    def __init__(self, request, decoupled, sink):
        self.request, self.decoupled, self.sink = request, decoupled, sink
        self.taken_count = 0
        self.cancelled = threading.Event()

    def attend(self, is_done):
        pass

    def taken(self, count):
        self.taken_count += count

    def cancel(self):
        self.cancelled.set()


class HandRuntime:
    """A Runtime whose calls are answered by the test; `answer_at_once` answers before `infer` returns."""

    model_dir = ""
    decoupled = False

    def __init__(self):
        self.begun = []
        self.logged = []
        self.answer_at_once = None
        self.has_begun = threading.Semaphore(0)

    def infer(self, request, decoupled, sink):
        self.begun.append(Outgoing(request, decoupled, sink))
        if self.answer_at_once is not None:
            sink(self.answer_at_once, True)
        self.has_begun.release()
        return self.begun[-1]

    def log(self, level, message, file, line):
        self.logged.append((level, message, file))


@pytest.fixture
def runtime():
    return HandRuntime()


@pytest.fixture
def request_(runtime):
    return request_class(runtime)(model_name="other", requested_output_names=["Y"], inputs=[])


def response(value=0, **options):
    return InferenceResponse([Tensor("Y", np.array([value]))], **options)


def value_of(response):
    return int(response.output_tensors()[0].as_numpy()[0])


def in_thread(function):
    """Run it; gives what waits for its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()

    def result():
        thread.join(PATIENCE_S)
        return found[0]

    return result


def test_exec_waits_for_the_response(runtime, request_):
    result = in_thread(request_.exec)
    assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    assert runtime.begun[0].sink.blocks  # so the runtime need not copy the inputs
    runtime.begun[0].sink(response(7), True)
    assert value_of(result()) == 7


def test_an_answer_that_comes_before_infer_returns_is_not_lost(runtime, request_):
    runtime.answer_at_once = response(7)
    assert value_of(request_.exec()) == 7
    assert [value_of(each) for each in request_.exec(decoupled=True)] == [7]
    assert value_of(asyncio.run(awaited(request_.async_exec))) == 7


async def awaited(begin, *arguments):
    return await begin(*arguments)


def test_an_end_without_a_response_is_an_error_response(runtime, request_):
    result = in_thread(request_.exec)
    assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    runtime.begun[0].sink(None, True)
    assert "'other' ended without a response" in result().error().message()


def test_calls_run_side_by_side(runtime, request_):
    results = [in_thread(request_.exec) for _ in range(8)]
    for _ in results:
        assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    for number, call in enumerate(runtime.begun):
        call.sink(response(number), True)
    assert sorted(value_of(result()) for result in results) == list(range(8))


def test_responses_are_given_as_they_come_and_taken_is_told(runtime, request_):
    result = in_thread(lambda: request_.exec(decoupled=True))
    assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    call = runtime.begun[0]
    call.sink(response(0), False)
    responses = result()  # it comes with the first
    call.sink(response(1), False)
    assert [value_of(next(responses)), value_of(next(responses))] == [0, 1]
    assert call.taken_count == 2
    call.sink(None, True)
    assert next(responses).output_tensors() == []
    with pytest.raises(StopIteration):
        next(responses)
    assert not call.cancelled.is_set()


def finished(runtime, request, count):
    """An iterator over `count` responses and an empty end."""
    result = in_thread(lambda: request.exec(decoupled=True))
    assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    for index in range(count):
        runtime.begun[-1].sink(response(index), False)
    runtime.begun[-1].sink(None, True)
    return result()


def numbers(responses):
    return [value_of(each) for each in responses if each.output_tensors()]


def test_responses_may_be_read_again_after_the_end(runtime, request_):
    responses = finished(runtime, request_, 4)
    assert value_of(next(responses)) == 0
    assert numbers(responses) == [1, 2, 3]
    assert numbers(responses) == [0, 1, 2, 3]
    for each in responses:
        if value_of(each) == 1:
            break
    assert value_of(next(responses)) == 2
    assert numbers(responses) == [3]


def test_cancelling_an_iterator_and_then_a_finished_one(runtime, request_):
    result = in_thread(lambda: request_.exec(decoupled=True))
    assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    call = runtime.begun[0]
    call.sink(response(0), False)
    responses = result()
    responses.cancel()
    assert call.cancelled.is_set()
    call.sink(InferenceResponse(error=TritonError("gone", TritonError.CANCELLED)), True)
    assert [each.has_error() for each in responses] == [False, True]
    call.cancelled.clear()
    responses.cancel()
    assert not call.cancelled.is_set()


def test_a_dropped_iterator_cancels_its_call(runtime, request_):
    result = in_thread(lambda: request_.exec(decoupled=True))
    assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    runtime.begun[0].sink(response(0), False)
    responses = result()
    del responses, result
    gc.collect()
    assert runtime.begun[0].cancelled.wait(PATIENCE_S)


def test_a_finished_iterator_that_is_dropped_cancels_nothing(runtime, request_, monkeypatch):
    responses = finished(runtime, request_, 1)
    list(responses)
    monkeypatch.setattr(calls._thread, "start_new_thread", lambda *_: pytest.fail("a thread for a cancellation"))
    del responses
    gc.collect()


def test_async_exec_begins_at_once_and_many_run_side_by_side(runtime, request_):
    async def main():
        futures = [request_.async_exec() for _ in range(5)]
        assert len(runtime.begun) == 5
        assert not runtime.begun[0].sink.blocks
        for number, call in enumerate(runtime.begun):
            call.sink(response(number), True)
        return [value_of(each) for each in await asyncio.gather(*futures)]

    assert asyncio.run(main()) == list(range(5))


def test_async_iteration_leaves_the_loop_free(runtime, request_):
    async def main():
        future = request_.async_exec(decoupled=True)
        call = runtime.begun[0]
        call.sink(response(0), False)
        responses = await future
        assert value_of(await anext(responses)) == 0
        second = asyncio.ensure_future(anext(responses))
        await asyncio.sleep(0)
        assert not second.done()
        call.sink(response(1), True)
        assert value_of(await second) == 1
        return [value_of(each) async for each in responses]

    assert asyncio.run(main()) == [0, 1]  # read again


def test_cancelling_the_future_cancels_the_call(runtime, request_):
    async def main():
        future = request_.async_exec()
        future.cancel()
        await asyncio.sleep(0)
        return runtime.begun[0].cancelled.is_set()

    assert asyncio.run(main())


def test_an_answer_after_the_loop_was_closed_is_nobodys(runtime, request_):
    async def main():
        request_.async_exec()

    asyncio.run(main())
    runtime.begun[0].sink(response(), True)


def test_cancel_of_a_request_ends_all_its_calls(runtime, request_):
    results = [in_thread(request_.exec) for _ in range(2)]
    for _ in results:
        assert runtime.has_begun.acquire(timeout=PATIENCE_S)
    request_.cancel()
    assert all(call.cancelled.is_set() for call in runtime.begun)
    for call in runtime.begun:
        call.sink(response(), True)
    [result() for result in results]
    runtime.begun[0].cancelled.clear()
    request_.cancel()
    assert not runtime.begun[0].cancelled.is_set()


def test_exec_on_an_event_loop_blocks_it_and_says_so(runtime, request_):
    runtime.answer_at_once = response(7)

    async def main():
        return request_.exec()

    assert value_of(asyncio.run(main())) == 7
    ((level, message, file),) = runtime.logged
    assert (level, file) == ("WARNING", "test_calls.py")
    assert "async_exec" in message


def test_no_calls_outside_execute(runtime, request_):
    with calls.outside_execute(), pytest.raises(TritonModelException, match="only supported during the 'execute'"):
        request_.exec()
    with calls.outside_execute(), pytest.raises(TritonModelException, match="only supported during the 'execute'"):
        asyncio.run(awaited(request_.async_exec))
    runtime.answer_at_once = response(1)
    assert value_of(request_.exec()) == 1


def test_a_request_that_came_from_the_server_is_not_executed_itself(runtime):
    facts = ("", 0, 0, 0, 0, None, None)
    received = request_class(runtime)._received(facts, [], ["Y"], False, 0, lambda key: False)
    with pytest.raises(TritonModelException, match="make an InferenceRequest"):
        received.exec()
    received.cancel()


def test_async_exec_needs_a_running_loop(request_):
    with pytest.raises(TritonModelException, match="async_exec is for coroutines: write `async def execute`"):
        request_.async_exec()


def test_requests_of_a_runtime_are_requests(request_):
    assert isinstance(request_, InferenceRequest)
    assert type(request_).__name__ == "InferenceRequest"


def test_a_forked_process_can_not_call(request_, monkeypatch):
    monkeypatch.setattr(calls, "_PID", calls._PID - 1)
    with pytest.raises(TritonModelException, match="forked"):
        request_.exec()


@pytest.mark.parametrize("missing", ["model_name", "inputs", "requested_output_names"])
def test_what_a_call_needs_is_named(runtime, missing):
    given = {"model_name": "other", "inputs": [], "requested_output_names": ["Y"]}
    del given[missing]
    with pytest.raises(TypeError, match=missing):
        request_class(runtime)(**given)


def test_what_goes_wrong_after_the_last_response_is_not_hidden(runtime, request_, monkeypatch):
    runtime.answer_at_once = response(1)

    def begin(request, decoupled, sink, infer=runtime.infer):
        infer(request, decoupled, sink)
        raise MemoryError("after the answer")

    monkeypatch.setattr(runtime, "infer", begin)
    with pytest.raises(MemoryError, match="after the answer"):
        request_.exec()
    assert not request_._running


def test_the_log_says_why_there_is_no_output(runtime):
    get = build_module(runtime).get_output_tensor_by_name
    assert get(response(7), "Y").as_numpy()[0] == 7
    assert get(response(7), "Z") is None
    assert runtime.logged == []
    assert get(InferenceResponse(error=TritonError("unknown model")), "Y") is None
    ((level, message, file),) = runtime.logged
    assert (level, file) == ("WARNING", "test_calls.py")
    assert message == "there is no output 'Y' in a response that is an error: unknown model"


def test_what_was_not_awaited_has_no_outputs(runtime):
    get = build_module(runtime).get_output_tensor_by_name
    loop = asyncio.new_event_loop()
    with pytest.raises(TypeError, match="needs an InferenceResponse, got Future: await it first"):
        get(loop.create_future(), "Y")
    loop.close()
    with pytest.raises(TypeError, match=r"got NoneType$"):
        get(None, "Y")
