from charonia.observe.cpu import CpuMetrics, CpuTimes, Memory, read_memory, read_times
from charonia.observe.exposition import Exposition


class Hand:
    def __init__(self):
        self.ns = 1000

    def now_ns(self):
        return self.ns


class Host:
    def __init__(self):
        self.times = CpuTimes(100.0, 100.0)
        self.memory = Memory(1000, 10)
        self.reads = 0

    def read_times(self):
        self.reads += 1
        return self.times


def written(metrics):
    out = Exposition()
    metrics.write(out)
    return [line for line in out.text().splitlines() if not line.startswith("#")]


def test_utilization_is_measured_between_readings():
    clock, host = Hand(), Host()
    metrics = CpuMetrics(clock, 2_000, host.read_times, lambda: host.memory)
    assert written(metrics) == ["nv_cpu_utilization 0", "nv_cpu_memory_total_bytes 1000", "nv_cpu_memory_used_bytes 10"]
    host.times, host.memory = CpuTimes(101.0, 103.0), Memory(1000, 20)
    clock.ns += 1_999
    assert written(metrics)[0] == "nv_cpu_utilization 0"
    clock.ns += 1
    assert written(metrics) == [
        "nv_cpu_utilization 0.25",
        "nv_cpu_memory_total_bytes 1000",
        "nv_cpu_memory_used_bytes 20",
    ]
    host.times = CpuTimes(201.0, 3.0)
    clock.ns += 2_000
    assert written(metrics)[0] == "nv_cpu_utilization 1"


def test_nothing_is_read_unless_asked():
    clock, host = Hand(), Host()
    metrics = CpuMetrics(clock, 1, host.read_times, lambda: host.memory)
    clock.ns += 10**12
    assert host.reads == 1
    written(metrics)
    assert host.reads == 2


def test_no_time_passed_keeps_the_value():
    clock, host = Hand(), Host()
    metrics = CpuMetrics(clock, 1, host.read_times, lambda: host.memory)
    clock.ns += 1
    assert written(metrics)[0] == "nv_cpu_utilization 0"


def test_this_host_can_be_read():
    times, memory = read_times(), read_memory()
    assert times.busy > 0
    assert times.idle > 0
    assert 0 < memory.used_bytes < memory.total_bytes
