"""`parameters { key: "latency_target_p95_ms" … }`: what a model asks of the batcher, in place of a fixed delay."""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.config.report import Report

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

_KEY = re.compile(r"latency_target_p(\w+)_ms")
_PERCENTILES = ("50", "90", "95", "99")
_LIKE_ONE = "latency_target"


@dataclass(frozen=True, slots=True)
class LatencyTargetSetting:
    """A target as it was written: the key of the parameter, which percentile (above 0, below 100), and how much."""

    key: str
    percentile: int
    ms: float


def latency_target(config: "ModelConfig") -> LatencyTargetSetting | None:
    """The target of a valid configuration, None where there is none, or nothing to batch."""
    if not config.HasField("dynamic_batching") or config.max_batch_size < 1:
        return None
    for key, value in config.parameters.items():
        percentile, ms = _percentile(key), _ms(value.string_value)
        if percentile and ms:
            return LatencyTargetSetting(key, int(percentile), ms)
    return None


def check_latency_target(config: "ModelConfig", report: Report, *, is_complete: bool) -> None:
    """`is_complete` False: max_batch_size may still come from the model file when it is 0."""
    keys = sorted(key for key in config.parameters if key.startswith(_LIKE_ONE))
    for key in keys:
        _check_one(key, config.parameters[key].string_value, report)
    if not keys:
        return
    path = f'parameters["{keys[0]}"]'
    if len(keys) > 1:
        message = f"there are several latency targets, {' and '.join(keys)}, and the batcher follows one"
        report.error(f'parameters["{keys[1]}"]', message, "keep one of them")
    if not config.HasField("dynamic_batching"):
        message = f"{keys[0]} is a target for dynamic batching, which the model does not have"
        report.error(path, message, "write dynamic_batching { }, or remove the parameter")
    elif is_complete and config.max_batch_size < 1:
        message = f"{keys[0]} is a target for dynamic batching, and max_batch_size is {config.max_batch_size}"
        report.error(path, message, "set max_batch_size, or remove the parameter")


def _check_one(key: str, text: str, report: Report) -> None:
    path = f'parameters["{key}"]'
    if _percentile(key) is None:
        known = ", ".join(f"latency_target_p{each}_ms" for each in _PERCENTILES)
        report.error(path, f"there is no latency target '{key}'", f"write one of {known}")
    if _ms(text) is None:
        message = f'{key} is "{text}", expected a number of milliseconds above 0'
        report.error(f"{path}.string_value", message, 'write string_value: "20", for example')


def _percentile(key: str) -> str | None:
    match = _KEY.fullmatch(key)
    return match[1] if match and match[1] in _PERCENTILES else None


def _ms(text: str) -> float | None:
    try:
        ms = float(text)
    except ValueError:
        return None
    return ms if ms > 0 and math.isfinite(ms) else None
