"""The store in this process: bounded by bytes; what has not been used for longest goes first."""

import threading
from collections import OrderedDict
from time import monotonic_ns

from charonia.cache.response import CachedResponse
from charonia.core.shelf import KeptAnswer
from charonia.observe.cache import CacheCounters


class LocalCache:
    """Implements `LocalStore`.

    Args:
        limit_bytes: of everything that is kept, overhead included.
    """

    name = "local"
    is_shared = False

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, CachedResponse] = OrderedDict()
        self._used_bytes = 0
        self._hits = self._misses = self._evictions = self._too_large = 0
        self._lookup_ns = self._insertion_ns = 0

    def lookup(self, key: bytes) -> CachedResponse | None:
        started_ns = monotonic_ns()
        with self._lock:
            response = self._entries.get(key)
            if response is None:
                self._misses += 1
            else:
                self._entries.move_to_end(key)
                self._hits += 1
            self._lookup_ns += monotonic_ns() - started_ns
        return response

    def insert(self, key: bytes, response: CachedResponse) -> bool:
        started_ns = monotonic_ns()
        with self._lock:
            fits = response.nbytes <= self._limit_bytes
            if not fits:
                self._too_large += 1
            elif key not in self._entries:
                self._make_room(response.nbytes)
                self._entries[key] = response
                self._used_bytes += response.nbytes
            self._insertion_ns += monotonic_ns() - started_ns
        return fits

    def add_place(self, key: bytes, response: CachedResponse, kept: KeptAnswer) -> None:
        more = response.place_nbytes
        with self._lock:
            if response.nbytes + more > self._limit_bytes:  # it would have to go itself
                return
            self._make_room(more)
            if self._entries.get(key) is response:
                response.kept.append(kept)
                self._resize(response, more)

    def leave_places(self, key: bytes, response: CachedResponse) -> None:
        with self._lock:
            less = len(response.kept) * response.place_nbytes
            response.kept.clear()
            if self._entries.get(key) is response:
                self._resize(response, -less)

    def _resize(self, response: CachedResponse, more: int) -> None:
        response.nbytes += more
        self._used_bytes += more

    def count_hits(self, count: int, lookup_ns: int) -> None:
        with self._lock:
            self._hits += count
            self._lookup_ns += lookup_ns

    def _make_room(self, nbytes: int) -> None:
        self._spare_used(nbytes)
        while self._used_bytes + nbytes > self._limit_bytes and self._entries:
            self._evict()

    def _spare_used(self, nbytes: int) -> None:
        """What the front end gives by itself moves here only when it would have to go."""
        for _ in range(len(self._entries)):
            if self._used_bytes + nbytes <= self._limit_bytes:
                return
            key, oldest = next(iter(self._entries.items()))
            if oldest.take_used():
                self._entries.move_to_end(key)
            else:
                self._evict()

    def _evict(self) -> None:
        _, oldest = self._entries.popitem(last=False)
        self._used_bytes -= oldest.nbytes
        self._evictions += 1

    def counters(self) -> CacheCounters:
        """For the metrics."""
        with self._lock:
            return CacheCounters(
                self._used_bytes / self._limit_bytes,
                len(self._entries),
                self._hits,
                self._misses,
                self._hits + self._misses,
                self._evictions,
                self._lookup_ns // 1000,
                self._insertion_ns // 1000,
                self._too_large,
            )

    def close(self) -> None:
        with self._lock:
            self._entries.clear()
            self._used_bytes = 0
