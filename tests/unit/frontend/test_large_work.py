import asyncio
import threading

import pytest

from charonia.frontend.large_work import LargeWork


def thread_of(nbytes):
    return asyncio.run(LargeWork(small_bytes=10).run(nbytes, threading.current_thread))


def test_small_work_is_done_at_once_and_large_work_on_a_thread():
    assert thread_of(10) is threading.current_thread()
    assert thread_of(11) is not threading.current_thread()


@pytest.mark.parametrize("nbytes", [0, 100])
def test_errors_are_raised_where_the_work_was_asked_for(nbytes):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(LargeWork(small_bytes=10).run(nbytes, fail))


def test_few_threads_at_a_time_and_the_loop_goes_on():
    async def run():
        large, running, let_go = LargeWork(small_bytes=10), threading.Semaphore(0), threading.Event()

        def work():
            running.release()
            let_go.wait()

        tasks = [asyncio.ensure_future(large.run(100, work)) for _ in range(5)]
        while not (running.acquire(blocking=False)):
            await asyncio.sleep(0)
        while not (running.acquire(blocking=False)):
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not running.acquire(blocking=False)
        let_go.set()
        await asyncio.gather(*tasks)
        assert all(running.acquire(blocking=False) for _ in range(3))

    asyncio.run(run())


def test_who_leaves_does_not_disturb_the_thread():
    async def run():
        started, let_go, done = threading.Event(), threading.Event(), []

        def work():
            started.set()
            let_go.wait()
            done.append(True)

        task = asyncio.ensure_future(LargeWork(small_bytes=10).run(100, work))
        while not started.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        let_go.set()
        while not done:
            await asyncio.sleep(0)

    asyncio.run(run())
