"""What a thread takes upon itself is done in order, without a deeper stack."""

import sys
import threading

from charonia.scheduling.errands import Errands


def test_errands_of_errands_come_after_them_in_order():
    errands, done = Errands(), []

    def first():
        errands.run(lambda: done.append("second"))
        errands.run(lambda: done.append("third"))
        done.append("first")

    errands.run(first)
    assert done == ["first", "second", "third"]


def test_one_that_is_needed_now_and_what_it_leads_to_do_not_wait_for_the_outer_one():
    errands, done = Errands(), []

    def needed():
        errands.run(lambda: done.append("led to"))
        done.append("needed")

    def outer():
        errands.run(lambda: done.append("later"))
        errands.apart(needed)
        done.append("outer")

    errands.run(outer)
    assert done == ["needed", "led to", "outer", "later"]


def test_a_long_chain_needs_no_deep_stack():
    errands, depths = Errands(), []

    def step(left):
        depths.append(_depth())
        if left:
            errands.run(lambda: step(left - 1))

    errands.run(lambda: step(5000))
    assert len(depths) == 5001
    assert max(depths) <= min(depths) + 2


def test_each_thread_has_its_own():
    errands, done = Errands(), []

    def first():
        thread = threading.Thread(target=errands.run, args=(lambda: done.append("other"),))
        thread.start()
        thread.join()
        done.append("first")

    errands.run(first)
    assert done == ["other", "first"]


def _depth():
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
