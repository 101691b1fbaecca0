"""The store in a Redis, over a client that does what the test says. Threads are real, nothing waits for time."""

import threading
from queue import SimpleQueue

import numpy as np
import pytest

from charonia.cache import redis_store
from charonia.cache.redis_jobs import Jobs
from charonia.cache.redis_store import RedisCache
from charonia.cache.response import CachedResponse
from charonia.core.errors import UnavailableError
from charonia.core.tensor import Tensor
from charonia.testing.log import kept_log

PATIENCE_S = 20


class FakeRedis:
    """Keeps values; while `broken`, every call raises it. `asked` has what was asked for, as it was asked."""

    def __init__(self):
        self.values = {}
        self.broken = None
        self.asked = SimpleQueue()
        self.written = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False

    def _try(self):
        self.gate.wait(PATIENCE_S)
        if self.broken is not None:
            raise self.broken

    def ping(self):
        self._try()

    def mget(self, keys):
        self.asked.put(list(keys))
        self._try()
        return [self.values.get(key) for key in keys]

    def mset(self, values):
        self._try()
        self.values |= values
        self.written.release()

    def close(self):
        self.closed = True


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(redis_store, "_PROBE_S", 0.01)
    log, lines = kept_log()
    client = FakeRedis()
    store = RedisCache(client, "h:1", log)
    store.fake, store.lines = client, lines
    yield store
    client.gate.set()
    store.close()
    assert client.closed


def lookup(store, key):
    found = SimpleQueue()
    store.begin_lookup(key, found.put)
    return found


def found(store, key):
    return lookup(store, key).get(timeout=PATIENCE_S)


def response(value=1.0):
    return CachedResponse([Tensor.from_numpy("O", np.array([value], np.float32)).copied()], {"p": 1})


def keep(store, key, kept):
    assert store.insert(key, kept)
    assert store.fake.written.acquire(timeout=PATIENCE_S)


def test_what_is_kept_is_found_again(world):
    assert found(world, b"k") is None
    keep(world, b"k", response(3.0))
    again = found(world, b"k")
    assert again.outputs[0].numpy().tolist() == [3.0]
    assert again.parameters == {"p": 1}


def test_keys_begin_with_our_name(world):
    keep(world, b"k", response())
    assert list(world.fake.values) == [b"charonia:response:k"]


def test_what_is_no_response_is_a_miss(world):
    world.fake.values[b"charonia:response:k"] = b"something else"
    assert found(world, b"k") is None


def test_a_redis_that_can_not_be_reached_refuses_the_start():
    client = FakeRedis()
    client.broken = OSError("refused")
    with pytest.raises(UnavailableError, match=r"failed to connect to Redis .h:1.: refused"):
        RedisCache(client, "h:1", kept_log()[0])
    assert client.closed


def test_one_that_goes_away_is_a_miss_and_is_not_asked_again_until_it_is_back(world):
    keep(world, b"k", response())
    world.fake.gate.clear()  # so that no probe gets through before we have looked
    world.fake.broken = OSError("gone")
    waiting = lookup(world, b"k")
    assert world.fake.asked.get(timeout=PATIENCE_S)
    world.fake.gate.set()
    assert waiting.get(timeout=PATIENCE_S) is None
    asked = world.fake.asked.qsize()
    assert found(world, b"k") is None
    assert world.fake.asked.qsize() == asked
    assert world.insert(b"l", response())  # nobody hears of it
    assert sum("can't be reached" in line for line in world.lines.lines) == 1
    world.fake.broken = None
    deadline = threading.Event()
    while found(world, b"k") is None:
        assert not deadline.wait(0.005)
    assert any("is reached again" in line for line in world.lines.lines)


def test_one_that_refuses_something_is_asked_on(world):
    world.fake.broken = ValueError("OOM command not allowed")
    for _ in range(2):
        assert found(world, b"k") is None
    assert world.fake.asked.qsize() == 2
    assert sum("does not do" in line for line in world.lines.lines) == 1


def test_lookups_that_came_together_are_one_round_trip(world):
    world.fake.gate.clear()
    first = lookup(world, b"0")
    assert world.fake.asked.get(timeout=PATIENCE_S)
    others = [lookup(world, b"%d" % number) for number in range(1, 5)]
    world.fake.gate.set()
    for each in (first, *others):
        assert each.get(timeout=PATIENCE_S) is None
    assert len(world.fake.asked.get(timeout=PATIENCE_S)) == 4


def test_who_waits_for_a_thread_too_long_gets_a_miss(world):
    world._wait_s = -1.0
    keep(world, b"k", response())
    assert found(world, b"k") is None
    assert world.fake.asked.empty()


def test_who_finds_too_many_waiting_gets_a_miss_at_once(world):
    keep(world, b"k", response())
    world.fake.gate.clear()
    inside = lookup(world, b"k")
    assert world.fake.asked.get(timeout=PATIENCE_S)
    waiting = [lookup(world, b"k") for _ in range(redis_store._WAITING_LOOKUPS)]
    for _ in range(2):
        assert lookup(world, b"k").get_nowait() is None
    assert sum("lookups wait for Redis (h:1)" in line for line in world.lines.lines) == 1
    world.fake.gate.set()
    for each in (inside, *waiting):
        assert each.get(timeout=PATIENCE_S) is not None
    assert found(world, b"k") is not None


def test_after_the_end_there_is_nothing(world):
    world.close()
    assert found(world, b"k") is None
    assert world.insert(b"k", response())


def test_what_waits_to_be_written_is_bounded():
    jobs = Jobs(2, limit=10, enough=5)
    assert [jobs.put(name, weight) for name, weight in (("a", 5), ("b", 3), ("c", 3), ("d", 2))] == [
        True,
        True,
        False,
        True,
    ]
    assert jobs.take() == ["a"]
    assert jobs.take() == ["b", "d"]
    jobs.close()
    assert jobs.take() == []
    assert not jobs.put("e")
