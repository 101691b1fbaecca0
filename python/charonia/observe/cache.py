"""The families of the local response cache as a whole; those of each model are among the families of models."""

from collections.abc import Callable
from typing import NamedTuple

from charonia.observe.exposition import Exposition


class CacheCounters(NamedTuple):
    """The cache at one moment, in the order of FAMILIES; durations in microseconds."""

    util: float
    entries: int
    hits: int
    misses: int
    lookups: int
    evictions: int
    lookup_us: int
    insertion_us: int
    too_large: int


FAMILIES = (
    ("nv_cache_util", "Share of the response cache's memory that is in use, from 0 to 1"),
    ("nv_cache_num_entries", "Responses in the response cache"),
    ("nv_cache_num_hits", "Lookups in the response cache that found a response"),
    ("nv_cache_num_misses", "Lookups in the response cache that found none"),
    ("nv_cache_num_lookups", "Lookups in the response cache"),
    ("nv_cache_num_evictions", "Responses that left the response cache to make room for others"),
    ("nv_cache_lookup_duration", "Microseconds spent on lookups in the response cache"),
    ("nv_cache_insertion_duration", "Microseconds spent on insertions into the response cache"),
    ("charonia_cache_num_too_large", "Responses that were not kept because they are larger than the response cache"),
)
NAMES = tuple(name for name, _ in FAMILIES)


class CacheMetrics:
    """Implements `MetricWriter`. Triton has gauges here, also for what only grows."""

    def __init__(self, read: Callable[[], CacheCounters]) -> None:
        self._read = read

    def write(self, out: Exposition) -> None:
        for (name, text), value in zip(FAMILIES, self._read(), strict=True):
            out.single(name, "gauge", text, value)
