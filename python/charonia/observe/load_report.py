"""How loaded the server is, in the form that balancers ask for by a header (ORCA): what models say of their KV caches.

A model tells it by gauges of the family `nv_trt_llm_kv_cache_block_metrics`, whose label `kv_cache_block_type` is
`used`, `max` or `tokens_per`. Where several models do, their blocks and tokens are added up.
"""

import json
from collections.abc import Iterable, Mapping
from math import isfinite

FAMILY = "nv_trt_llm_kv_cache_block_metrics"
_TYPE = "kv_cache_block_type"
_USED, _MAX, _TOKENS_PER = "used", "max", "tokens_per"

Samples = Iterable[tuple[Mapping[str, str], float]]
"""(labels, value) of each metric of a family."""


def load_report(samples: Samples) -> tuple[str, str] | None:
    """The report as text and as JSON; None while no model tells all three."""
    caches: dict[frozenset[tuple[str, str]], dict[str, float]] = {}
    for labels, value in samples:
        whose = frozenset(item for item in labels.items() if item[0] != _TYPE)
        if isfinite(value) and value >= 0:
            caches.setdefault(whose, {})[labels.get(_TYPE, "")] = value
    whole = [cache for cache in caches.values() if {_USED, _MAX, _TOKENS_PER} <= cache.keys()]
    if not whole:
        return None
    blocks = sum(cache[_MAX] for cache in whole)
    utilization = sum(cache[_USED] for cache in whole) / blocks if blocks else 0.0
    tokens = int(sum(cache[_MAX] * cache[_TOKENS_PER] for cache in whole))
    named = {"kv_cache_utilization": utilization, "max_token_capacity": tokens}
    text = f"named_metrics.kv_cache_utilization={utilization:f}, named_metrics.max_token_capacity={tokens}"
    return f"TEXT {text}", "JSON " + json.dumps({"named_metrics": named}, separators=(",", ":"))
