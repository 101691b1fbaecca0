"""The thread that writes traces: in order, all of them, and nobody waits for it."""

import threading

import pytest

from charonia.observe.traces import writer as module
from charonia.observe.traces.setting import Level
from charonia.observe.traces.writer import TraceWriter
from charonia.testing.log import kept_log
from tests.unit.observe.traces.trace_world import KeptTraces, World, tensor

PATIENCE_S = 20


@pytest.fixture
def log():
    return kept_log()


def writer(sink, log):
    return TraceWriter(sink, log[0], lambda name, error: None)


def test_all_that_is_there_is_written_before_the_end(log):
    sink, world = KeptTraces(), World()
    traces = [world.traced() for _ in range(5)]
    slow = writer(sink, log)
    for trace in traces:
        slow.put(trace)
    slow.retire([world.setting])
    slow.start()
    assert slow.close(PATIENCE_S)
    assert (sink.traces, sink.settings, sink.closed) == (traces, [world.setting], True)


def test_what_it_can_not_follow_is_dropped_and_told(log, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WAITING", 2)
    sink, world = KeptTraces(), World()
    slow = writer(sink, log)
    for _ in range(5):
        slow.put(world.traced())
    world.setting.retire()
    slow.start()
    assert slow.close(PATIENCE_S)
    assert len(sink.traces) == 2
    assert world.setting.over, "those that were dropped count as collected"
    assert "3 traces were dropped" in log[1].text


def test_so_are_tensors_beyond_what_may_wait(log, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WAITING_BYTES", 10)
    sink, world = KeptTraces(), World(Level.TENSORS)
    slow = writer(sink, log)
    for _ in range(3):
        slow.put(world.traced(tensor("Y", 1), inputs={"X": tensor("X", 1)}))
    slow.start()
    assert slow.close(PATIENCE_S)
    assert len(sink.traces) == 1


def test_one_that_can_not_be_written_costs_itself_only(log):
    class Picky(KeptTraces):
        def take(self, trace):
            if not self.traces and not self.settings:
                self.settings.append(trace)
                raise ValueError("a tensor that lies")
            super().take(trace)

    sink, world = Picky(), World()
    able = writer(sink, log)
    able.start()
    able.put(world.traced())
    able.put(world.traced())
    assert able.close(PATIENCE_S)
    assert len(sink.traces) == 1
    assert "model 'm' can't be written: ValueError" in log[1].text


def test_a_sink_that_hangs_does_not_hold_the_end_up(log):
    released = threading.Event()

    class Hanging(KeptTraces):
        def take(self, trace):
            released.wait(PATIENCE_S)

    hanging = writer(Hanging(), log)
    hanging.start()
    hanging.put(World().traced())
    assert not hanging.close(0.0)
    released.set()
    assert hanging.close(PATIENCE_S)


def test_it_need_not_have_been_started(log):
    assert writer(KeptTraces(), log).close(0.0)


def test_what_the_time_of_a_stop_is_too_short_for_is_told(log, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WAITING", 3)
    begun, may_go_on = threading.Event(), threading.Event()

    class Stuck(KeptTraces):
        def take(self, trace):
            begun.set()
            may_go_on.wait(PATIENCE_S)
            super().take(trace)

    sink, world = Stuck(), World()
    slow = writer(sink, log)
    slow.start()
    slow.put(world.traced())
    assert begun.wait(PATIENCE_S)
    for _ in range(4):
        slow.put(world.traced())
    assert not slow.close(0)
    assert "the last traces could not be written in the time that there was; lost are 4" in log[1].text
    may_go_on.set()
    assert slow.close(PATIENCE_S)
    assert len(sink.traces) == 1
