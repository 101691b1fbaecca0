import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.observe.metrics_config import MetricsOptions, parse_metrics_config
from charonia.options import ServerOptions


def test_the_defaults_are_tritons():
    assert parse_metrics_config({}) == MetricsOptions(True, False, False, (0.5, 0.9, 0.95, 0.99, 0.999))


def test_settings():
    options = parse_metrics_config(
        {
            "counter_latencies": "false",
            "summary_latencies": "TRUE",
            "histogram_latencies": "true",
            "summary_quantiles": "0.5:0.05, 0.99:1e-3,1:0",
        }
    )
    assert options == MetricsOptions(False, True, True, (0.5, 0.99, 1.0))


def test_an_error_with_a_surplus_part_counts_as_for_triton():
    assert parse_metrics_config({"summary_quantiles": "0.1:0.0.1,0.7:0.01"}).quantiles == (0.1, 0.7)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("counter_latencies", "no", "counter_latencies is true or false, got 'no'"),
        ("nope", "true", "no setting 'nope': expected one of counter_latencies, "),
        ("summary,latencies", "true", "no setting 'summary,latencies'"),
        ("summary_quantiles", "0.5", "<quantile>:<error> with two numbers from 0 to 1, got '0.5'"),
        ("summary_quantiles", "0.5:0.05,", "got ''"),
        ("summary_quantiles", "half:0.05", "got 'half:0.05'"),
        ("summary_quantiles", "1.5:0.05", "got '1.5:0.05'"),
        ("summary_quantiles", "-0.5:0.05", "got '-0.5:0.05'"),
        ("summary_quantiles", "0.5:nan", "got '0.5:nan'"),
        ("summary_quantiles", "0.5:0.05:1", "got '0.5:0.05:1'"),
        ("summary_quantiles", "0.5:0.1,0.50:0.01", "names the quantile 0.5 twice"),
    ],
)
def test_what_can_not_be_set_is_named(name, value, words):
    with pytest.raises(InvalidArgumentError) as raised:
        parse_metrics_config({name: value})
    assert "--metrics-config" in str(raised.value)
    assert words in str(raised.value)
    with pytest.raises(InvalidArgumentError, match="--metrics-config"):
        ServerOptions(model_repository=["somewhere"], metrics_config={name: value}).check()
