"""What the front end gives by itself: under which identity, how much, and what is counted of it."""

import sys
from itertools import count

from charonia.cache.local import LocalCache
from charonia.cache.response import CachedResponse
from charonia.cache.shelves import Shelves
from charonia.core.request import Reply
from charonia.core.tensor import HostBuffer, Tensor
from charonia.observe.statistics import ModelStatistics
from charonia.testing.requests import KeptReplies, make_request


class FakeKept:
    def __init__(self):
        self.used = False

    def take_used(self):
        used, self.used = self.used, False
        return used


class FakeShelf:
    def __init__(self):
        self.kept = []
        self.given = []
        self.full = False

    def keep(self, reply):
        if self.full:
            return None
        self.kept.append(FakeKept())
        return self.kept[-1]

    def take_given(self):
        given, self.given = self.given, []
        return given


def response(nbytes=4):
    return CachedResponse([Tensor("O", "UINT8", (nbytes,), HostBuffer(bytes(nbytes), nbytes, owned=True))], {})


class World:
    def __init__(self, limit_bytes=100_000):
        self.cache = LocalCache(limit_bytes)
        self.statistics = ModelStatistics()
        self.made = []
        self.shelves = Shelves(self.cache, self.statistics, self._new)

    def _new(self):
        self.made.append(FakeShelf())
        return self.made[-1]

    def found(self, key=b"k", nbytes=4, identity=b"one"):
        """An answer that is in the cache and was found there."""
        kept = response(nbytes)
        self.cache.insert(key, kept)
        self.hit(kept, key, identity)
        return kept

    def hit(self, kept, key=b"k", identity=b"one"):
        self.shelves.keep(identity, key, kept, Reply(make_request(KeptReplies()), kept.outputs))


def test_each_identity_has_a_shelf_of_its_own():
    world = World()
    assert world.shelves.turn_to(None) is None
    first = world.shelves.turn_to(b"one")
    assert world.shelves.turn_to(b"one") is first
    world.found(b"k")
    second = world.shelves.turn_to(b"two")
    assert second is not first
    world.found(b"l", identity=b"one")  # it was looked up before the change
    world.found(b"m", identity=b"two")
    assert (len(first.kept), len(second.kept)) == (1, 1)
    assert world.shelves.turn_to(None) is None
    world.found(b"n", identity=b"two")
    assert (len(first.kept), len(second.kept)) == (1, 1)


def test_a_change_at_any_moment_gives_no_shelf_the_answers_of_another_identity():
    world = World()
    world.shelves.turn_to(b"one")
    keys = count()

    def find_meanwhile(frame, event, _):
        if frame.f_code is Shelves.turn_to.__code__ and event == "line":
            sys.settrace(None)  # one answer at each line, and nothing within
            world.found(b"%d" % next(keys), identity=b"one")
            sys.settrace(find_meanwhile)
        return find_meanwhile

    before = sys.gettrace()
    sys.settrace(find_meanwhile)
    try:
        world.shelves.turn_to(b"two")
    finally:
        sys.settrace(before)
    first, second = world.made
    assert first.kept
    assert not second.kept


def test_what_both_gave_is_counted():
    world = World()
    first = world.shelves.turn_to(b"one")
    second = world.shelves.turn_to(b"two")
    first.given, second.given = [(2, 200, 20)], [(1, 1_000, 10), (3, 30_000, 60)]
    world.shelves.count_given()
    world.shelves.count_given()
    counted = world.statistics
    assert (counted.success.count, counted.success.ns) == (6, 31_200)
    assert (counted.cache_hit.count, counted.cache_hit.ns) == (6, 90)
    assert (counted.queue.count, counted.inference_count, sum(counted.total_latency.counts)) == (6, 0, 6)
    assert world.cache.counters().hits == 6


def test_an_answer_is_kept_in_a_few_forms_only():
    world = World()
    shelf = world.shelves.turn_to(b"one")
    kept = world.found()
    for _ in range(10):
        world.hit(kept)
    assert len(shelf.kept) == len(kept.kept) == 4


def test_an_answer_that_is_refused_is_not_offered_for_ever():
    world = World()
    shelf = world.shelves.turn_to(b"one")
    offers = []
    shelf.keep = offers.append
    kept = world.found()
    for _ in range(100):
        world.hit(kept)
    assert len(offers) == 16
    world.shelves.turn_to(b"two").keep = offers.append
    world.hit(kept, identity=b"two")
    assert len(offers) == 17


def test_it_leaves_its_places_for_those_on_another_shelf():
    world = World()
    world.shelves.turn_to(b"one")
    kept = world.found()
    size = kept.nbytes
    for identity in (b"two", b"one", b"two"):
        shelf = world.shelves.turn_to(identity)
        world.hit(kept, identity=identity)
        assert kept.kept == shelf.kept
        assert kept.nbytes == size
        assert world.cache.counters().util == size / 100_000


def test_the_room_that_it_takes_counts():
    world = World()
    world.shelves.turn_to(b"one")
    alone = response(1000).nbytes
    kept = world.found(nbytes=1000)
    assert kept.nbytes >= alone + 1000, "short tensors are copied"
    assert world.cache.counters().util == kept.nbytes / 100_000
    large = world.found(b"l", nbytes=10_000)
    assert large.nbytes < 12_000, "longer ones are not"


def test_what_finds_no_room_is_given_up():
    world = World(limit_bytes=response().nbytes + 10)
    world.shelves.turn_to(b"one")
    kept = world.found()
    assert kept.kept == []
    assert world.cache.lookup(b"k") is kept, "the answer itself stays"


def test_an_answer_that_the_cache_has_lost_is_kept_nowhere():
    world = World()
    world.shelves.turn_to(b"one")
    lost = response()
    world.hit(lost)
    assert lost.kept == []


def test_what_the_front_end_cannot_know_costs_nothing():
    world = World()
    shelf = world.shelves.turn_to(b"one")
    shelf.full = True
    kept = world.found()
    assert (kept.kept, kept.nbytes) == ([], response().nbytes)


def test_what_is_given_in_front_stays_and_what_nobody_asks_for_goes():
    world = World()
    shelf = world.shelves.turn_to(b"one")
    for key in (b"a", b"b", b"c"):
        world.found(key)
    size = response().nbytes + response().place_nbytes
    world.cache._limit_bytes = 3 * size
    shelf.kept[0].used = True
    world.cache.insert(b"d", response())
    assert [world.cache.lookup(key) is not None for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    assert not shelf.kept[0].used


def test_even_if_all_were_given_one_has_to_go():
    world = World()
    shelf = world.shelves.turn_to(b"one")
    for key in (b"a", b"b"):
        world.found(key)
    world.cache._limit_bytes = 2 * (response().nbytes + response().place_nbytes)
    for kept in shelf.kept:
        kept.used = True
    world.cache.insert(b"c", response())
    assert [world.cache.lookup(key) is not None for key in (b"a", b"b", b"c")] == [False, True, True]
    assert world.cache.counters().util <= 1
