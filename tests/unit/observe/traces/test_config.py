"""--trace-config, in Triton's words."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.observe.traces.config import DEFAULT_URL, Batching, parse_trace_config
from charonia.observe.traces.setting import Level, Mode, TraceValues


def test_nothing_given():
    config = parse_trace_config((), {})
    assert (config.values, config.mode, config.file) == (TraceValues(Level.OFF, 1000, -1, 0), Mode.TRITON, "")
    assert config.shown == {}


def test_a_file():
    config = parse_trace_config(
        ("triton,file=/t.json", "triton,log-frequency=50", "rate=100", "level=TIMESTAMPS", "count=7", "level=tensors"),
        {},
    )
    assert config.values == TraceValues(Level.TIMESTAMPS | Level.TENSORS, 100, 7, 50)
    assert config.file == "/t.json"


@pytest.mark.parametrize("word", ["min", "MAX", "True", "on", "timestamps"])
def test_older_words_for_the_level(word):
    assert parse_trace_config((f"level={word}",), {}).values.level is Level.TIMESTAMPS


def test_off_wins_whatever_else_is_said():
    assert parse_trace_config(("level=TIMESTAMPS", "level=off", "level=TENSORS"), {}).values.level is Level.OFF


def test_the_last_one_counts():
    assert parse_trace_config(("rate=1", "rate=2"), {}).values.rate == 2


def test_a_collector():
    config = parse_trace_config(
        (
            "mode=opentelemetry",
            "opentelemetry,url=localhost:1/v1/traces",
            "opentelemetry,resource=service.name=a=b",
            "opentelemetry,resource=x=1",
            "opentelemetry,bsp_schedule_delay=0",
        ),
        {"OTEL_BSP_MAX_QUEUE_SIZE": "7"},
    )
    assert config.mode is Mode.OPENTELEMETRY
    assert config.resource == {"service.name": "a=b", "x": "1"}
    assert config.batching == Batching(7, 0, 512)
    assert list(config.shown.items()) == [
        ("url", "localhost:1/v1/traces"),
        ("resource", "x=1"),
        ("bsp_schedule_delay", "0"),
        ("bsp_max_queue_size", "7"),
        ("bsp_max_export_batch_size", "512"),
    ]


def test_a_collector_where_it_is_looked_for():
    assert parse_trace_config(("mode=opentelemetry",), {}).url == DEFAULT_URL


def test_the_environment_counts_in_its_mode_only():
    assert parse_trace_config((), {"OTEL_BSP_MAX_QUEUE_SIZE": "bad_value"}).batching.max_queue_size == 2048


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("rate",), "format is"),
        (("rate=",), "format is"),
        (("=1",), "format is"),
        ((",rate=1",), "format is"),
        (("zipkin,url=x",), 'Available options are "triton" and "opentelemetry"'),
        (("mode=zipkin",), "invalid value for trace mode option: 'zipkin'"),
        (("level=ALL",), 'Bad option: "--trace-config level"'),
        (("rate=x",), 'Bad option: "--trace-config rate": expected a whole number'),
        (("rate=-1",), "from 0 to 2147483647"),
        (("rate=1_0",), "whole number"),
        (("count=-2",), "from -1 to 2147483647"),
        (("triton,log-frequency=10000000000",), 'Bad option: "--trace-config triton,log-frequency"'),
        (("triton,url=x",), "of mode 'triton' are file, log-frequency; got 'url'"),
        (("file=x",), "for every mode are level, rate, count, mode; got 'file'"),
        (("opentelemetry,resource=x",), "expected resource=<name>=<value>"),
        (
            ("mode=opentelemetry", "opentelemetry,bsp_max_queue_size=bad"),
            'trace-config opentelemetry,bsp_max_queue_size"',
        ),
        (("mode=opentelemetry", "opentelemetry,bsp_max_queue_size=0"), "must be above 0"),
    ],
)
def test_what_is_wrong_is_named(settings, words):
    with pytest.raises(InvalidArgumentError) as refusal:
        parse_trace_config(settings, {})
    assert words in str(refusal.value)


def test_what_is_wrong_in_the_environment_is_named():
    with pytest.raises(InvalidArgumentError, match='Bad option: "OTEL_BSP_SCHEDULE_DELAY"'):
        parse_trace_config(("mode=opentelemetry",), {"OTEL_BSP_SCHEDULE_DELAY": "bad_value"})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:1/v1/traces", "http://localhost:1/v1/traces"),
        ("localhost:1/a@b?c=@", "localhost:1/a@b?c=@"),
        ("http://user:s3cr3t@host:1/v1", "http://...@host:1/v1"),
        ("user:s3c@r3t@host:1", "...@host:1"),
        ("https://token@host?x", "https://...@host?x"),
    ],
)
def test_a_password_in_the_url_is_not_shown(url, shown):
    config = parse_trace_config(("mode=opentelemetry", f"opentelemetry,url={url}"), {})
    assert (config.url, config.shown["url"]) == (url, shown)
