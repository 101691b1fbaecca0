"""`--metrics-config`: which families of latencies are written."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charonia.core.errors import InvalidArgumentError

_FLAGS = ("counter_latencies", "summary_latencies", "histogram_latencies")
_QUANTILES = "summary_quantiles"
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """What `--metrics-config` says; the defaults are Triton's.

    Attributes:
        counter_latencies: the `nv_inference_*_duration_us` counters.
        summary_latencies: the `nv_inference_*_summary_us` summaries.
        histogram_latencies: `nv_inference_first_response_histogram_ms`.
        quantiles: of the summaries, each from 0 to 1.
    """

    counter_latencies: bool = True
    summary_latencies: bool = False
    histogram_latencies: bool = False
    quantiles: Sequence[float] = (0.5, 0.9, 0.95, 0.99, 0.999)


def parse_metrics_config(settings: Mapping[str, str]) -> MetricsOptions:
    """From the values of `--metrics-config=<name>=<value>`.

    Raises:
        InvalidArgumentError: an unknown name, or a value that the setting can't have.
    """
    flags: dict[str, bool] = {}
    quantiles = MetricsOptions().quantiles
    for name, value in settings.items():
        if name == _QUANTILES:
            quantiles = _quantiles(value)
        elif name in _FLAGS:
            flags[name] = _flag(name, value)
        else:
            raise InvalidArgumentError(
                f"--metrics-config has no setting '{name}': expected one of {', '.join((*_FLAGS, _QUANTILES))}"
            )
    return MetricsOptions(**flags, quantiles=quantiles)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"--metrics-config {name} is true or false, got '{value}'")
    return value.lower() == "true"


def _quantiles(value: str) -> tuple[float, ...]:
    quantiles = tuple(_quantile(pair.strip()) for pair in value.split(","))
    for at, quantile in enumerate(quantiles):
        if quantile in quantiles[:at]:
            raise InvalidArgumentError(f"--metrics-config {_QUANTILES} names the quantile {quantile:g} twice")
    return quantiles


def _quantile(pair: str) -> float:
    """The quantile of `<quantile>:<error>`. The error is checked only: the sketch is more exact than anybody asks."""
    quantile, separator, error = pair.partition(":")
    if not separator or not _is_share(quantile) or not _is_share(_without_surplus(error)):
        raise InvalidArgumentError(
            f"--metrics-config {_QUANTILES} is a list like 0.5:0.05,0.99:0.001, each <quantile>:<error> "
            f"with two numbers from 0 to 1, got '{pair}'"
        )
    return float(quantile)


def _is_share(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and float(text) <= 1


def _without_surplus(text: str) -> str:
    """`0.0.1` counts as 0.0, as for Triton: launch lines with such errors exist, in its own test suite too."""
    return ".".join(text.split(".")[:2]) if re.fullmatch(r"[\d.]+", text) else text
