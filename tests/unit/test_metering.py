"""Which families of metrics the flags of a server ask for."""

import sys

import pytest

from charonia.cli.parse import parse_flags
from charonia.core.log import SilentLog
from charonia.metering import measures_gpus, open_metrics
from charonia.observe import cpu, gpu
from charonia.observe.metrics_config import MetricsOptions
from charonia.testing.clock import ManualClock
from tests.models.nvml import FakeNvml

CPU, GPU = set(cpu.NAMES), set(gpu.NAMES)


@pytest.fixture
def families(monkeypatch):
    """The families of a host with a GPU, by the flags."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())

    def of(*flags):
        options = parse_flags(["--model-repository=/models", *flags]).options
        metrics = open_metrics(options, MetricsOptions(), ["GPU-a"], list, lambda: True, ManualClock(), SilentLog())
        return {line.split()[2] for line in metrics.text().splitlines() if line.startswith("# TYPE")}

    return of


def test_by_default_both_are_there(families):
    assert families() >= CPU | GPU


def test_each_can_be_left_out(families):
    assert not families("--allow-cpu-metrics=false") & CPU
    assert not families("--allow-gpu-metrics=false") & GPU
    assert not families("--allow-metrics=false") & (CPU | GPU)


def test_without_its_metrics_nothing_is_counted_by_gpu():
    counted = [
        measures_gpus(parse_flags(["--model-repository=/models", flag]).options)
        for flag in ("--allow-metrics=true", "--allow-gpu-metrics=false", "--allow-metrics=false")
    ]
    assert counted == [True, False, False]


def test_both_are_read_once_in_the_interval(monkeypatch):
    nvml, reads = FakeNvml(), []
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(cpu.psutil, "virtual_memory", lambda: reads.append("cpu") or FakeMemory())
    options = parse_flags(["--model-repository=/models", "--metrics-interval-ms=500"]).options
    clock = ManualClock()
    metrics = open_metrics(options, MetricsOptions(), ["GPU-a"], list, lambda: True, clock, SilentLog())
    metrics.text()
    before = (len(reads), nvml.reads)
    clock.advance(ms=499)
    metrics.text()
    assert (len(reads), nvml.reads) == before
    clock.advance(ms=1)
    metrics.text()
    assert len(reads) == before[0] + 1
    assert nvml.reads > before[1]


class FakeMemory:
    total, available = 1000, 10
