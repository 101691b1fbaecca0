"""Buckets of a model's own for the server's histograms."""

import pytest

from charonia.config.metric_control import FIRST_RESPONSE, buckets_of, check_metric_control
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.report import Report


def parsed(*controls):
    form = 'metric_control {{ metric_identifier {{ family: "{}" }} histogram_options {{ buckets: [ {} ] }} }}'
    texts = [form.format(family, buckets) for family, buckets in controls]
    return parse_pbtxt(f"model_metrics {{ {' '.join(texts)} }}", "c")


def findings(*controls):
    document = parsed(*controls)
    report = Report(document.places)
    check_metric_control(document.config, report)
    return report.findings


def test_buckets_by_family():
    config = parsed(("other", "7"), (FIRST_RESPONSE, "1, 2"), (FIRST_RESPONSE, "-1, 0.0, 1, 2.5")).config
    assert buckets_of(config, FIRST_RESPONSE) == (-1, 0, 1, 2.5)
    assert buckets_of(config, "another") is None


@pytest.mark.parametrize("buckets", ["2, 1", "1, 1", "nan", "1, nan", "1, inf"])
def test_buckets_must_ascend(buckets):
    (found,) = findings((FIRST_RESPONSE, buckets))
    assert found.is_error
    assert "buckets must be ascending numbers" in found.message
    assert found.message.endswith(f"got {buckets}")
    assert found.place is not None


def test_right_buckets_are_not_remarked_upon():
    assert not findings((FIRST_RESPONSE, "-1, 0, 2.5"))


def test_a_family_without_choice_is_a_warning():
    (found,) = findings(("nv_inference_count", "1, 2"))
    assert not found.is_error
    assert "'nv_inference_count'" in found.message
    assert FIRST_RESPONSE in found.remedy
