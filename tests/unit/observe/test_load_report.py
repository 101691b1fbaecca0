"""The load that balancers are told of, from the metrics of models."""

import json
from math import nan

import pytest

from charonia.observe.custom_metrics import CustomMetrics, MetricKind
from charonia.observe.load_report import FAMILY, load_report


def samples(used: float, most: float, tokens: float, model: str = "llm") -> list[tuple[dict[str, str], float]]:
    values = {"used": used, "max": most, "tokens_per": tokens, "free": most - used}
    return [({"kv_cache_block_type": name, "model": model, "version": "1"}, value) for name, value in values.items()]


def test_both_forms() -> None:
    assert load_report(samples(3, 12, 64)) == (
        "TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=768",
        'JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":768}}',
    )


def test_models_are_added_up() -> None:
    report = load_report([*samples(1, 10, 8, "small"), *samples(29, 30, 64, "large")])
    assert report is not None
    assert json.loads(report[1].removeprefix("JSON "))["named_metrics"] == {
        "kv_cache_utilization": 0.75,
        "max_token_capacity": 2000,
    }


def test_without_blocks_nothing_is_used() -> None:
    report = load_report(samples(0, 0, 64))
    assert report is not None
    assert "kv_cache_utilization=0.000000" in report[0]


@pytest.mark.parametrize("wrong", [nan, -1.0])
def test_what_is_no_number_of_blocks_is_not_told(wrong: float) -> None:
    assert load_report(samples(wrong, 10, 64)) is None
    assert load_report([]) is None
    assert load_report(samples(1, 10, 64)[:2]) is None


def test_each_change_is_told_until_the_metrics_are_removed() -> None:
    metrics = CustomMetrics()
    told: list[tuple[str, str] | None] = []
    metrics.watch(FAMILY, lambda values: told.append(load_report(values)))
    other = metrics.family("other", "", MetricKind.GAUGE).metric({})
    family = metrics.family(FAMILY, "", MetricKind.GAUGE)
    handles = [family.metric(labels) for labels, _ in samples(0, 0, 0)]
    other.set(1)
    assert told == []
    for handle, (_, value) in zip(handles, samples(3, 12, 64), strict=True):
        handle.set(value)
    assert told[-1] == load_report(samples(3, 12, 64))
    for handle in handles:
        handle.remove()
    assert told[-1] is None
