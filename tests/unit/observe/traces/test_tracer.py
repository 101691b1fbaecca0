"""Which requests are traced."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.core.log import SilentLog
from charonia.observe.traces import tracer as module
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.setting import Level
from charonia.observe.traces.settings import WHOLE_SERVER, TraceChange
from charonia.observe.traces.tracer import Tracer
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from tests.unit.observe.traces.test_context import PARENT
from tests.unit.observe.traces.trace_world import make_tracer, no_header

OTEL = "mode=opentelemetry"


def sample(tracer, header=no_header, model="m"):
    found = tracer.sample(model, header)
    return found and tracer.begin(found, "HTTP", 0, 100)


def test_off_by_default():
    tracer = make_tracer()
    assert not tracer.on
    assert sample(tracer) is None


def test_a_level_without_a_file_traces_nothing_and_says_so():
    log, said = kept_log()
    config = parse_trace_config(("level=TIMESTAMPS", "rate=1"), {})
    tracer = Tracer(config, ManualClock(), log, lambda name, error: None)
    assert not tracer.on
    assert sample(tracer) is None
    assert "nothing is traced: trace file name is not given" in said.text


def test_numbers_count_from_1_and_go_on():
    tracer = make_tracer("level=TIMESTAMPS", "rate=2")
    assert tracer.on
    traces = [sample(tracer) for _ in range(4)]
    assert [trace and trace.number for trace in traces] == [None, 1, None, 2]
    assert traces[1].begun_ns == traces[1].arrival_ns == 100


def test_a_models_own_setting_counts():
    tracer = make_tracer()
    tracer.settings.update("m", TraceChange({"level": Level.TIMESTAMPS, "rate": 1}))
    assert sample(tracer) is not None
    assert sample(tracer, model="n") is None


def test_whoever_stamps_is_told_when_that_is_wanted():
    tracer = make_tracer()
    told = []
    tracer.on_switch(told.append)
    tracer.settings.update(WHOLE_SERVER, TraceChange({"level": Level.TIMESTAMPS}))
    tracer.settings.update(WHOLE_SERVER, TraceChange(cleared={"level"}))
    assert told == [False, True, False]


def test_in_tritons_mode_contexts_are_passed_over():
    tracer = make_tracer("level=TIMESTAMPS", "rate=1000")
    assert sample(tracer, {"traceparent": PARENT}.get) is None


def test_a_context_of_the_client_is_followed_whatever_the_rate():
    tracer = make_tracer(OTEL, "level=TIMESTAMPS", "rate=1000")
    assert sample(tracer) is None
    trace = sample(tracer, {"traceparent": PARENT, "tracestate": "a=1"}.get)
    assert trace.parent.span_id == 0xB7AD6B7169242424
    assert (trace.context.trace_id, trace.context.state) == (trace.parent.trace_id, "a=1")


def test_a_broken_context_is_none():
    tracer = make_tracer(OTEL, "level=TIMESTAMPS", "rate=0")
    assert tracer.on
    assert sample(tracer, {"traceparent": "nonsense"}.get) is None
    assert sample(tracer, {"traceparent": PARENT}.get) is not None


def test_without_a_context_a_trace_begins_one():
    tracer = make_tracer(OTEL, "level=TIMESTAMPS", "rate=1")
    trace = sample(tracer)
    assert trace.parent is None
    assert trace.context.trace_id


def test_missing_packages_are_told_when_something_is_to_be_traced(monkeypatch):
    def missing(config, log):
        raise InvalidArgumentError("pip install 'charonia[otel]'")

    monkeypatch.setattr(module, "_sink", missing)

    def make(*settings):
        return module.Tracer(parse_trace_config(settings, {}), ManualClock(), SilentLog(), lambda name, error: None)

    with pytest.raises(InvalidArgumentError, match="otel"):
        make(OTEL, "level=TIMESTAMPS")
    tracer = make(OTEL)
    with pytest.raises(InvalidArgumentError, match="otel"):
        tracer.settings.update(WHOLE_SERVER, TraceChange({"level": Level.TIMESTAMPS}))
    assert not tracer.on
