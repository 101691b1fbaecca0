from types import SimpleNamespace

import pytest

from charonia.observe.exposition import Exposition
from charonia.observe.gpu import Gpu, GpuMetrics, visible_handles


class NVMLError(Exception):
    pass


class FakeNvml:
    """Two GPUs; the second can't tell its power."""

    NVMLError = NVMLError

    def __init__(self):
        self.reads = 0

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, number):  # noqa: N802
        return number

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        return {b"GPU-a": 0, b"GPU-b": 1}[uuid]

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        self.reads += 1
        return SimpleNamespace(gpu=25 + handle)

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=1000, used=10 + handle)

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if handle:
            raise NVMLError
        return 250_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):  # noqa: N802
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        return 5_000


class Hand:
    ns = 0

    def now_ns(self):
        return self.ns


def test_families_and_labels():
    metrics = GpuMetrics(FakeNvml(), (Gpu("GPU-a", 0, 2_000), Gpu("GPU-b", 1, 0)), Hand(), 100)
    out = Exposition()
    metrics.write(out)
    assert [line for line in out.text().splitlines() if not line.startswith("#")] == [
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


@pytest.mark.parametrize(
    ("visible", "handles"),
    [(None, [0, 1]), ("1", [1]), ("1, 0", [1, 0]), ("", []), ("-1", []), ("0,-1,1", [0]), ("7", []), ("GPU-b", [1])],
)
def test_visible_devices(visible, handles):
    assert visible_handles(FakeNvml(), visible) == handles
