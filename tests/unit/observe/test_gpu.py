import sys

from charonia.core.log import SilentLog
from charonia.observe.exposition import Exposition
from charonia.observe.gpu import Gpu, GpuMetrics, open_gpu_metrics
from tests.models.nvml import FakeNvml


class Hand:
    ns = 0

    def now_ns(self):
        return self.ns


def text_of(metrics):
    out = Exposition()
    metrics.write(out)
    return out.text()


def test_families_and_labels():
    metrics = GpuMetrics(FakeNvml(), (Gpu("GPU-a", 0, 2_000), Gpu("GPU-b", 1, 0)), Hand(), 100)
    assert [line for line in text_of(metrics).splitlines() if not line.startswith("#")] == [
        'nv_gpu_utilization{gpu_uuid="GPU-a"} 0.25',
        'nv_gpu_utilization{gpu_uuid="GPU-b"} 0.26',
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 1000',
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-b"} 1000',
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 10',
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-b"} 11',
        'nv_gpu_power_usage{gpu_uuid="GPU-a"} 250.5',
        'nv_gpu_power_limit{gpu_uuid="GPU-a"} 700',
        'nv_gpu_power_limit{gpu_uuid="GPU-b"} 700',
        'nv_energy_consumption{gpu_uuid="GPU-a"} 3',
        'nv_energy_consumption{gpu_uuid="GPU-b"} 5',
    ]


def test_gpus_are_read_once_an_interval():
    nvml, clock = FakeNvml(), Hand()
    metrics = GpuMetrics(nvml, (Gpu("GPU-a", 0, 0),), clock, 100)
    for now in (0, 99, 100):
        clock.ns = now
        metrics.write(Exposition())
    assert nvml.reads == 2


def test_the_visible_gpus_are_opened_by_their_uuids(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    clock = Hand()
    metrics = open_gpu_metrics(["GPU-b"], clock, 100, SilentLog())
    assert metrics is not None
    assert 'nv_gpu_utilization{gpu_uuid="GPU-b"} 0.26' in text_of(metrics)
    assert 'nv_energy_consumption{gpu_uuid="GPU-b"} 0\n' in text_of(metrics)  # since the server started
    assert "GPU-a" not in text_of(metrics)


def test_without_gpus_or_nvml_there_are_no_gpu_metrics(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_gpu_metrics(["GPU-a"], Hand(), 100, SilentLog()) is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert open_gpu_metrics([], Hand(), 100, SilentLog()) is None
    assert open_gpu_metrics(["GPU-none"], Hand(), 100, SilentLog()) is None
