"""Latency targets and batching strategies in a configuration: what is read, and what is told of mistakes."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.batching_strategy import batching_strategy
from charonia.config.latency_target import LatencyTargetSetting, latency_target
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.report import Report
from charonia.config.validate_batching import check_batching

DYNAMIC = "max_batch_size: 8 dynamic_batching { }"


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def config_of(text):
    return parse_pbtxt(text, "c").config


def findings(text, *, is_complete=True):
    document = parse_pbtxt(text, "c")
    report = Report(document.places)
    check_batching(document.config, report, is_complete=is_complete)
    return [f"{each.path}: {each.message}; {each.remedy}" for each in report.findings]


@pytest.mark.parametrize("percentile", [50, 90, 95, 99])
def test_a_target(percentile):
    key = f"latency_target_p{percentile}_ms"
    text = f"{DYNAMIC} {parameter(key, '12.5')}"
    assert findings(text) == []
    assert latency_target(config_of(text)) == LatencyTargetSetting(key, percentile, 12.5)


def test_without_one_or_without_batches_there_is_none():
    assert latency_target(config_of(DYNAMIC)) is None
    assert latency_target(config_of(f"dynamic_batching {{ }} {parameter('latency_target_p95_ms', '20')}")) is None


TARGETS = [
    ("20", "latency_target_p95_ms", "sequence_batching { }", "latency_target_p95_ms is a target for dynamic batching, which the model does not have; write dynamic_batching { }"),
    ("20", "latency_target_p95_ms", "dynamic_batching { }", "latency_target_p95_ms is a target for dynamic batching, and max_batch_size is 0; set max_batch_size"),
    ("20", "latency_target_p42_ms", DYNAMIC, "there is no latency target 'latency_target_p42_ms'; write one of latency_target_p50_ms, latency_target_p90_ms"),
    ("20", "latency_target_p95_us", DYNAMIC, "there is no latency target 'latency_target_p95_us'; write one of"),
    ("20", "latency_target", DYNAMIC, "there is no latency target 'latency_target'; write one of"),
    *(
        (wrong, "latency_target_p95_ms", DYNAMIC, f'latency_target_p95_ms is "{wrong}", expected a number of milliseconds above 0; write string_value: "20"')
        for wrong in ("", "0", "-1", "fast", "nan", "inf", "20ms")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("value", "key", "batching", "told"), TARGETS)
def test_wrong_targets(value, key, batching, told):
    found = next(each for each in findings(f"{batching} {parameter(key, value)}") if each.startswith("parameters"))
    assert found.startswith(f'parameters["{key}"]')
    assert told in found
    if found.count("string_value"):
        assert latency_target(config_of(f"{DYNAMIC} {parameter(key, value)}")) is None


def test_several_targets_are_one_too_many():
    (found,) = findings(
        f"{DYNAMIC} {parameter('latency_target_p95_ms', '20')} {parameter('latency_target_p50_ms', '5')}"
    )
    assert "there are several latency targets, latency_target_p50_ms and latency_target_p95_ms" in found


def test_max_batch_size_may_still_come_from_the_model_file():
    assert findings(f"dynamic_batching {{ }} {parameter('latency_target_p95_ms', '20')}", is_complete=False) == []


@pytest.mark.parametrize("key", ["batching_strategy", "TRITON_BATCH_STRATEGY_PATH"])
def test_a_strategy(key):
    text = f"{DYNAMIC} {parameter(key, 'batching.py')}"
    assert findings(text) == []
    setting = batching_strategy(config_of(text))
    assert (setting.key, setting.value, setting.is_file) == (key, "batching.py", True)
    assert batching_strategy(config_of(DYNAMIC)) is None


def test_a_strategy_by_entry_point_is_no_file():
    assert not batching_strategy(config_of(f"{DYNAMIC} {parameter('batching_strategy', 'by_bytes')}")).is_file


STRATEGIES = [
    ("batching_strategy", "", DYNAMIC, 'batching_strategy has no string_value; write string_value: "batching.py"'),
    ("batching_strategy", "volume.so", DYNAMIC, "C++ libraries can't be used here; write the strategy in Python: class BatchingStrategy"),
    ("TRITON_BATCH_STRATEGY_PATH", "models/m/volume.so", DYNAMIC, "C++ libraries can't be used here; write the strategy in Python"),
    ("TRITON_BATCH_STRATEGY_PATH", "by_bytes", DYNAMIC, "C++ libraries can't be used here"),
    ("batching_strategy", "batching.py", "sequence_batching { }", "batching_strategy is for dynamic batching, and the model has sequence_batching; remove one"),
    ("batching_strategy", "batching.py", "", "batching_strategy has no effect: without dynamic_batching no requests are joined"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "batching", "told"), STRATEGIES)
def test_wrong_strategies(key, value, batching, told):
    (found,) = findings(f"{batching} {parameter(key, value)}")
    assert found.startswith(f'parameters["{key}"]')
    assert told in found


def test_two_strategies_are_one_too_many():
    (found,) = findings(
        f"{DYNAMIC} {parameter('batching_strategy', 'a.py')} {parameter('TRITON_BATCH_STRATEGY_PATH', 'a.py')}"
    )
    assert "batching_strategy and TRITON_BATCH_STRATEGY_PATH are both given; keep one" in found
