"""Calls that wait: on threads, bounded, in order, and not ended by whoever leaves."""

import asyncio
import threading

import pytest

from charonia.core.errors import NotFoundError, UnavailableError
from charonia.frontend.control.waiting import WaitingCalls

WAIT_S = 10


class Work:
    """Starts, and ends when it is let go."""

    def __init__(self):
        self.started = threading.Event()
        self.let_go = threading.Event()
        self.ended = threading.Event()

    def __call__(self):
        self.started.set()
        assert self.let_go.wait(WAIT_S)
        self.ended.set()
        return threading.current_thread().name


async def until(event):
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, WAIT_S)


def test_the_result_comes_from_another_thread():
    async def main():
        return await WaitingCalls().run("m", lambda: threading.current_thread().name)

    assert asyncio.run(main()) == "control-wait"


def test_an_error_is_the_callers():
    def fail():
        raise NotFoundError("no such model")

    with pytest.raises(NotFoundError, match="no such model"):
        asyncio.run(WaitingCalls().run("m", fail))


def test_the_loop_goes_on_meanwhile():
    async def main():
        work, calls = Work(), WaitingCalls()
        task = asyncio.create_task(calls.run("m", work))
        await until(work.started)
        assert await calls.run("other", lambda: "other") == "other"
        work.let_go.set()
        return await task

    assert asyncio.run(main()) == "control-wait"


def test_work_goes_on_when_its_caller_leaves():
    async def main():
        work, calls = Work(), WaitingCalls()
        task = asyncio.create_task(calls.run("m", work))
        await until(work.started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not work.ended.is_set()
        work.let_go.set()
        await until(work.ended)
        return calls

    assert asyncio.run(main()).join(WAIT_S)


def test_more_calls_than_threads_wait_in_order_and_too_many_are_refused():
    order = []

    async def main():
        work, calls = Work(), WaitingCalls(max_threads=1, max_calls=3)
        tasks = [
            asyncio.create_task(calls.run(str(each), each))
            for each in (work, lambda: order.append(1), lambda: order.append(2))
        ]
        await until(work.started)
        with pytest.raises(UnavailableError, match="3 loads and unloads are waiting"):
            await calls.run("m", work)
        assert order == []
        work.let_go.set()
        await asyncio.gather(*tasks)
        await calls.run("m", lambda: order.append(3))

    asyncio.run(main())
    assert order == [1, 2, 3]


def test_join_tells_who_is_still_busy():
    work, calls = Work(), WaitingCalls()

    async def main():
        task = asyncio.create_task(calls.run("m", work))
        await until(work.started)
        assert not calls.join(0.0)
        task.cancel()

    asyncio.run(main())
    work.let_go.set()
    assert calls.join(WAIT_S)


def test_calls_about_a_model_that_hangs_take_one_thread_and_keep_only_one_another_waiting():
    async def main():
        work, calls = Work(), WaitingCalls(max_threads=2, max_calls_of_one_model=5)
        tasks = [asyncio.create_task(calls.run("hangs", work)) for _ in range(5)]
        await until(work.started)
        assert await calls.run("other", lambda: "done") == "done"
        with pytest.raises(UnavailableError, match="5 of them of model 'hangs'"):
            await calls.run("hangs", work)
        work.let_go.set()
        await asyncio.gather(*tasks)
        assert await calls.run("hangs", lambda: "again") == "again"

    asyncio.run(main())


def test_a_place_is_taken_until_the_work_has_ended_though_its_caller_has_left():
    async def main():
        work, calls = Work(), WaitingCalls(max_threads=1)
        leaving = asyncio.create_task(calls.run("m", work))
        await until(work.started)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        next_one = asyncio.create_task(calls.run("n", work.ended.is_set))
        await asyncio.sleep(0)
        work.let_go.set()
        assert await next_one

    asyncio.run(main())


def test_who_leaves_while_waiting_gives_the_turn_back():
    async def main():
        work, calls = Work(), WaitingCalls(max_threads=1)
        first = asyncio.create_task(calls.run("m", work))
        await until(work.started)
        leaving = [asyncio.create_task(calls.run(name, work)) for name in ("m", "n")]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        work.let_go.set()
        await first
        assert [await calls.run(name, lambda: "done") for name in ("m", "n")] == ["done", "done"]

    asyncio.run(main())
