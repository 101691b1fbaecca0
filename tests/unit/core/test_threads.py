"""Supervised threads."""

import threading

from charonia.core.threads import SupervisedThread


def test_a_death_is_told_by_name():
    deaths = []
    error = ValueError("a bug")

    def work():
        raise error

    thread = SupervisedThread("worker", work, lambda *death: deaths.append(death))
    thread.start()
    assert thread.finish(10)
    assert deaths == [("worker", error)]


def test_a_plain_end_is_no_death():
    deaths = []
    release = threading.Event()
    thread = SupervisedThread("worker", release.wait, lambda *death: deaths.append(death))
    assert thread.finish(0), "it was never started"
    thread.start()
    assert not thread.finish(0)
    release.set()
    assert thread.finish(10)
    assert deaths == []
