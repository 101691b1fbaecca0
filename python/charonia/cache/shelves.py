"""Answers of the local cache that the front end gives by itself, and what is counted of them."""

from charonia.cache.response import CachedResponse
from charonia.cache.store import LocalStore
from charonia.core.request import Reply
from charonia.core.shelf import NewShelf, Shelf
from charonia.observe.statistics import ModelStatistics

# Requests may say the same in several ways: with the version or without it, outputs in any order.
_PLACES_AT_MOST = 4
# An offer hashes the request, and where one was refused the next may be too: it says more, or its answer is long.
_OFFERS_AT_MOST = 16


class Shelves:
    """Of one model version: one shelf for each of its identities, of which only the present one gets answers.

    Whoever publishes the version publishes the shelf with it; so what the former identity had is given no more.
    """

    def __init__(self, store: LocalStore, statistics: ModelStatistics, new_shelf: NewShelf) -> None:
        self._store = store
        self._statistics = statistics
        self._new_shelf = new_shelf
        self._former: Shelf | None = None
        self._present: tuple[bytes | None, Shelf | None] = (None, None)

    def turn_to(self, identity: bytes | None) -> Shelf | None:
        """The shelf of this identity, from now on. For one thread at a time."""
        former, shelf = self._present
        if identity != former:
            self.count_given()
            self._former, shelf = shelf, self._new_shelf() if identity is not None else None
            self._present = (identity, shelf)  # at once: an answer of the former identity must not come to this shelf
        return shelf

    def keep(self, identity: bytes, key: bytes, found: CachedResponse, reply: Reply) -> None:
        """`found` was the answer; the next request like this need not ask."""
        present, shelf = self._present
        if shelf is None or identity != present:
            return
        if found.shelf is not shelf:
            self._store.leave_places(key, found)
            found.shelf, found.offers = shelf, 0
        if found.offers >= _OFFERS_AT_MOST or len(found.kept) >= _PLACES_AT_MOST:
            return
        found.offers += 1
        kept = shelf.keep(reply)
        if kept is not None:
            self._store.add_place(key, found, kept)

    def count_given(self) -> None:
        """Count what was given meanwhile."""
        for shelf in (self._former, self._present[1]):
            for count, total_ns, lookup_ns in shelf.take_given() if shelf is not None else ():
                self._statistics.record_cache_hits(count, total_ns, lookup_ns)
                self._store.count_hits(count, lookup_ns)
