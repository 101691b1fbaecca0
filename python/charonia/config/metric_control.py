"""`model_metrics`: buckets of a model's own for the server's histograms."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from charonia.config.report import Report

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
"""The one family whose buckets can be chosen."""


def buckets_of(config: "ModelConfig", family: str) -> Sequence[float] | None:
    """The upper bounds that the configuration asks for, None where it says nothing. The last word counts."""
    chosen = None
    for control in config.model_metrics.metric_control:
        if control.metric_identifier.family == family:
            chosen = tuple(control.histogram_options.buckets)
    return chosen


def check_metric_control(config: "ModelConfig", report: Report) -> None:
    for index, control in enumerate(config.model_metrics.metric_control):
        path = f"model_metrics.metric_control[{index}]"
        family, buckets = control.metric_identifier.family, control.histogram_options.buckets
        if not family:
            report.error(path, "a metric_control names no metric", 'write metric_identifier { family: "…" }')
        elif family != FIRST_RESPONSE:
            message = f"there is no histogram '{family}' whose buckets can be chosen, so they are ignored"
            report.warn(f"{path}.metric_identifier.family", message, f"the one that can be named is {FIRST_RESPONSE}")
        if not buckets:
            report.error(path, "a metric_control has no buckets", "write histogram_options { buckets: [ 0.1, 1 ] }")
        elif not _ascend(buckets):
            shown = ", ".join(f"{each:g}" for each in buckets)
            message = f"buckets must be ascending numbers without repetition, got {shown}"
            report.error(f"{path}.histogram_options.buckets", message, "write them as upper bounds, like [ 0.1, 1 ]")


def _ascend(buckets: Sequence[float]) -> bool:
    """Also false for what is no number: it is not below anything. Infinity is the bucket that is always there."""
    return all(low < high for low, high in pairwise((*buckets, float("inf"))))
