"""Syntax trees for several threads."""

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from charonia.backends.python.syntax import parse

CODE = Path(__file__).read_bytes()


@pytest.fixture
def busy_collector():
    """Collects garbage all the time, and lets other threads in whenever it does."""

    def let_others_in(phase, info):
        time.sleep(0)

    threshold = gc.get_threshold()
    gc.callbacks.append(let_others_in)
    gc.set_threshold(1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    gc.callbacks.remove(let_others_in)


def test_threads_that_parse_at_once_do_not_disturb_one_another(busy_collector):
    start = threading.Barrier(4)

    def parse_some(_):
        start.wait()
        return [len(parse(CODE).body) for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(parse_some, range(4))) == [[len(parse(CODE).body)] * 30] * 4


def test_what_is_no_python_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        parse(b"class")
