"""The local store: bounded by bytes, least recently used first, counted."""

import numpy as np
import pytest

from charonia.cache.local import LocalCache
from charonia.cache.response import CachedResponse, kept_of
from charonia.core.errors import BackendError
from charonia.core.request import Reply
from charonia.core.tensor import HostBuffer, Tensor
from charonia.observe.cache import FAMILIES, CacheMetrics
from charonia.observe.exposition import Exposition
from charonia.testing.device import FakeDevice
from charonia.testing.requests import KeptReplies, make_request


def response(nbytes=4):
    return CachedResponse([Tensor("O", "UINT8", (nbytes,), HostBuffer(bytes(nbytes), nbytes, owned=True))], {})


ONE_BYTES = response().nbytes


def test_what_is_kept_is_found_again():
    cache = LocalCache(10 * ONE_BYTES)
    kept = response()
    assert cache.lookup(b"k") is None
    assert cache.insert(b"k", kept)
    assert cache.lookup(b"k") is kept
    assert cache.lookup(b"l") is None


def test_the_least_recently_used_goes_first():
    cache = LocalCache(2 * ONE_BYTES)
    for key in (b"a", b"b"):
        cache.insert(key, response())
    cache.lookup(b"a")
    cache.insert(b"c", response())
    assert [cache.lookup(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    counters = cache.counters()
    assert (counters.entries, counters.evictions, counters.util) == (2, 1, 1.0)


def test_a_large_response_takes_the_place_of_as_many_as_it_needs():
    cache = LocalCache(3 * ONE_BYTES)
    for key in (b"a", b"b", b"c"):
        cache.insert(key, response())
    cache.insert(b"d", response(4 + ONE_BYTES))
    assert [cache.lookup(key) is not None for key in (b"a", b"b", b"c", b"d")] == [False, False, True, True]


def test_the_first_of_two_equal_ones_stays():
    cache = LocalCache(10 * ONE_BYTES)
    first = response()
    cache.insert(b"k", first)
    cache.insert(b"k", response())
    assert cache.lookup(b"k") is first
    assert cache.counters().entries == 1


def test_what_is_larger_than_the_cache_is_counted_and_throws_nothing_out():
    cache = LocalCache(ONE_BYTES)
    cache.insert(b"a", response())
    assert not cache.insert(b"b", response(5))
    assert cache.lookup(b"a") is not None
    assert cache.counters().too_large == 1


def test_never_more_than_the_limit_whatever_comes():
    cache = LocalCache(5000)
    random = np.random.default_rng(1)
    for number in range(500):
        cache.insert(b"%d" % number, response(int(random.integers(0, 6000))))
        assert cache.counters().util <= 1
    cache.close()
    assert cache.counters()[:2] == (0, 0)


def test_the_size_of_an_entry_is_what_it_takes():
    """Names, shapes and parameters count: many small answers must not take more than they are said to."""
    import tracemalloc

    count = 2000
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    cache = LocalCache(10**9)
    for number in range(count):
        data = bytes(16)
        tensor = Tensor("OUTPUT0", "FP32", (1, 4), HostBuffer(bytearray(data), 16, owned=False))
        kept = kept_of(Reply(make_request(KeptReplies()), [tensor], None, {"answer": f"text {number}"}))
        cache.insert(number.to_bytes(20, "big"), kept)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before <= cache.counters().util * 10**9


@pytest.mark.parametrize("kept", [False, True])
def test_metrics(kept):
    cache = LocalCache(2 * ONE_BYTES)
    cache.lookup(b"k")
    if kept:
        cache.insert(b"k", response())
        cache.lookup(b"k")
    out = Exposition()
    CacheMetrics(cache.counters).write(out)
    lines = dict(line.split() for line in out.text().splitlines() if not line.startswith("#"))
    assert list(lines) == [name for name, _ in FAMILIES]
    wanted = {"util": 0.5, "num_entries": 1, "num_hits": 1, "num_misses": 1, "num_lookups": 2, "num_evictions": 0}
    if kept:
        assert {name: float(lines[f"nv_cache_{name}"]) for name in wanted} == wanted


def reply(*outputs, **options):
    return Reply(make_request(KeptReplies()), list(outputs), **options)


def test_what_is_kept_are_copies_that_nobody_can_write_to():
    array = np.array([1.0], np.float32)
    kept = kept_of(reply(Tensor.from_numpy("O", array, owned=True), parameters={"p": 1}))
    array[:] = 2
    assert kept.outputs[0].numpy().tolist() == [1.0]
    assert kept.parameters == {"p": 1}
    with pytest.raises(ValueError, match="read-only"):
        kept.outputs[0].numpy()[:] = 3


def test_what_can_not_be_kept():
    tensor = Tensor.from_numpy("O", np.zeros(1, np.float32))
    assert kept_of(reply(tensor)) is not None
    assert kept_of(reply(error=BackendError("no"))) is None
    assert kept_of(reply(tensor, final=False)) is None
    assert kept_of(reply(has_response=False)) is None
    assert kept_of(reply(Tensor("O", "FP32", (1,), FakeDevice().place(np.zeros(1, np.float32))))) is None
