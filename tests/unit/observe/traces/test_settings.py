"""The server's settings, those of models, and what follows what."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.observe.traces.setting import Level, Mode, TraceValues
from charonia.observe.traces.settings import WHOLE_SERVER, TraceChange, TraceSettings

START = TraceValues(Level.TIMESTAMPS, rate=5, count=-1, log_frequency=0)


@pytest.fixture
def replaced():
    return []


@pytest.fixture
def settings(replaced):
    return TraceSettings(START, Mode.TRITON, on_change=replaced.extend)


def set_to(**given):
    return TraceChange(given)


def test_a_model_has_the_servers(settings):
    assert settings.of("m").values == START


def test_a_models_own_differ_in_what_was_given(settings):
    settings.update("m", set_to(rate=1))
    settings.update(WHOLE_SERVER, set_to(level=Level.TIMESTAMPS | Level.TENSORS, rate=9))
    assert settings.of("m").values == TraceValues(Level.TIMESTAMPS | Level.TENSORS, rate=1)
    assert settings.of("n").values == TraceValues(Level.TIMESTAMPS | Level.TENSORS, rate=9)


def test_what_is_cleared_follows_again(settings):
    settings.update("m", set_to(rate=1, log_frequency=7))
    settings.update("m", TraceChange(cleared={"rate"}))
    assert settings.of("m").values == TraceValues(Level.TIMESTAMPS, rate=5, log_frequency=7)
    settings.update("m", TraceChange(cleared={"log_frequency"}))
    assert settings.of("m") is settings.of("n")


def test_the_server_follows_what_it_was_started_with(settings):
    settings.update(WHOLE_SERVER, set_to(rate=9, count=4))
    settings.update(WHOLE_SERVER, TraceChange(cleared={"rate", "count", "level"}))
    assert settings.of("m").values == START


def test_a_count_that_was_used_goes_on_where_it_is(settings):
    settings.update(WHOLE_SERVER, set_to(count=3, rate=1))
    assert settings.of("m").sample()
    settings.update(WHOLE_SERVER, set_to(log_frequency=2))
    assert settings.of("m").values.count == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [(set_to(rate=0), "rate must be non-zero"), (set_to(count=0), "no trace is left")],
)
def test_what_could_trace_nothing_is_refused_and_changes_nothing(settings, change, why):
    for model in ("m", WHOLE_SERVER):
        with pytest.raises(InvalidArgumentError, match=why):
            settings.update(model, change)
        assert settings.of("m").values == START


def test_unless_tracing_is_off(settings):
    settings.update(WHOLE_SERVER, set_to(level=Level.OFF, count=0))
    assert settings.of("m").values.count == 0
    assert not settings.trace_something


def test_a_model_may_be_traced_while_the_server_is_not(settings):
    settings.update(WHOLE_SERVER, set_to(level=Level.OFF))
    settings.update("m", set_to(level=Level.TENSORS))
    assert settings.trace_something
    assert (settings.of("m").level, settings.of("n").level) == (Level.TENSORS, Level.OFF)


def test_an_obstacle_is_told_and_nothing_is_traced():
    settings = TraceSettings(TraceValues(), Mode.TRITON, "trace file name is not given")
    with pytest.raises(InvalidArgumentError, match="Attempting to set invalid trace setting: trace file name is not"):
        settings.update(WHOLE_SERVER, set_to(level=Level.TIMESTAMPS))
    assert not settings.trace_something
    assert not settings.of("m").sample()


def test_in_opentelemetrys_mode_a_rate_of_0_still_traces_something():
    settings = TraceSettings(TraceValues(Level.TIMESTAMPS, rate=0), Mode.OPENTELEMETRY)
    assert settings.trace_something


def test_what_was_replaced_is_told(settings, replaced):
    settings.update("m", set_to(rate=1))
    first, own = settings.of("n"), settings.of("m")
    settings.update(WHOLE_SERVER, set_to(rate=2))
    assert replaced == [first, own]
    assert all(each.over for each in replaced)
