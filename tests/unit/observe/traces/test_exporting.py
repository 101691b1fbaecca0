"""A collector that takes nothing: what is lost is counted, and a stop does not wait for it."""

import threading

import pytest

from charonia.observe.traces.config import parse_trace_config
from charonia.testing.log import kept_log
from tests.unit.observe.traces.trace_world import World

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from charonia.observe.traces import spans
from charonia.observe.traces.exporting import LimitedExporter

PATIENCE_S = 20


class Collector(SpanExporter):
    """Answers `result`; one that is `away` is tried until the exporter is shut down."""

    def __init__(self, result=SpanExportResult.SUCCESS, *, away=False):
        self.result = result
        self.batches = []
        self.shutdowns = 0
        self._over = threading.Event()
        if not away:
            self._over.set()

    def export(self, batch):
        self.batches.append(len(batch))
        assert self._over.wait(PATIENCE_S)
        return self.result

    def shutdown(self):
        self.shutdowns += 1
        self._over.set()


def test_what_is_not_taken_is_counted():
    collector = Collector()
    exporter = LimitedExporter(collector)
    assert exporter.export(["a", "b"]) is SpanExportResult.SUCCESS
    collector.result = SpanExportResult.FAILURE
    assert exporter.export(["c", "d", "e"]) is SpanExportResult.FAILURE
    assert exporter.lost == 3


def test_once_given_up_nobody_is_asked():
    collector = Collector()
    exporter = LimitedExporter(collector)
    exporter.shutdown()
    exporter.shutdown()
    assert exporter.export(["a"]) is SpanExportResult.FAILURE
    assert (collector.batches, collector.shutdowns, exporter.lost) == ([], 1, 1)


@pytest.mark.parametrize(("away", "told"), [(False, False), (True, True)])
def test_a_stop_gives_a_collector_up_that_is_not_there(monkeypatch, away, told):
    collector = Collector(SpanExportResult.FAILURE if away else SpanExportResult.SUCCESS, away=away)
    monkeypatch.setattr(spans, "_exporter", lambda config: LimitedExporter(collector))
    if away:
        monkeypatch.setattr(spans, "_LAST_S", 0.01)
    log, lines = kept_log()
    config = parse_trace_config(["mode=opentelemetry", "level=TIMESTAMPS", "opentelemetry,bsp_max_export_batch_size=2"])
    sink = spans.SpanSink(config, log)
    sink.take(World(spans=True).traced())
    sink.close()
    assert collector.batches == ([2] if away else [2, 1]), "three spans, two at a time"
    assert ("spans that the collector did not take, and that are lost: 3" in lines.text) is told
    assert collector.shutdowns == 1
