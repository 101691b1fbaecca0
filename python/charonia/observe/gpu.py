"""Utilization, memory, power and energy of the visible GPUs, by NVML (`nvidia-ml-py`) where there is one."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from charonia.core.clock import Clock
from charonia.core.log import Log
from charonia.observe.exposition import Exposition, label_text

_FAMILIES = (
    ("nv_gpu_utilization", "gauge", "Share of time in which the GPU was computing, from 0 to 1"),
    ("nv_gpu_memory_total_bytes", "gauge", "Memory of the GPU in bytes"),
    ("nv_gpu_memory_used_bytes", "gauge", "Memory of the GPU that is in use, in bytes"),
    ("nv_gpu_power_usage", "gauge", "Power that the GPU draws, in watts"),
    ("nv_gpu_power_limit", "gauge", "Power that the GPU may draw, in watts"),
    ("nv_energy_consumption", "counter", "Energy that the GPU used since the server started, in joules"),
)
NAMES = tuple(name for name, _, _ in _FAMILIES)


@dataclass(slots=True)
class Gpu:
    """One visible GPU: its NVML handle and the energy meter when the server started."""

    uuid: str
    handle: Any
    energy_start_mj: int


class GpuMetrics:
    """Read at most once in `interval_ns`; a value that a GPU can't tell is left out."""

    def __init__(self, nvml: Any, gpus: tuple[Gpu, ...], clock: Clock, interval_ns: int) -> None:
        self._nvml = nvml
        self._gpus = gpus
        self._clock = clock
        self._interval_ns = interval_ns
        self._read_at_ns: int | None = None
        self._values: list[tuple[str, dict[str, float]]] = []

    def write(self, out: Exposition) -> None:
        now_ns = self._clock.now_ns()
        if self._read_at_ns is None or now_ns - self._read_at_ns >= self._interval_ns:
            self._read_at_ns = now_ns
            self._values = [(label_text({"gpu_uuid": gpu.uuid}), self._read(gpu)) for gpu in self._gpus]
        for name, kind, text in _FAMILIES:
            out.family(name, kind, text)
            for labels, values in self._values:
                if name in values:
                    out.sample(name, labels, values[name])

    def _read(self, gpu: Gpu) -> dict[str, float]:
        nvml, handle = self._nvml, gpu.handle
        readers: Mapping[str, Callable[[], float]] = {
            "nv_gpu_utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "nv_gpu_memory_total_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
            "nv_gpu_memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "nv_gpu_power_usage": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "nv_gpu_power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "nv_energy_consumption": lambda: (
                (nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - gpu.energy_start_mj) / 1000
            ),
        }
        values: dict[str, float] = {}
        for name, reader in readers.items():
            try:
                values[name] = reader()
            except nvml.NVMLError:  # not every GPU tells everything
                continue
        return values


def open_gpu_metrics(uuids: Sequence[str], clock: Clock, interval_ns: int, log: Log) -> GpuMetrics | None:
    """Of the GPUs with these UUIDs, the visible ones; None where there are none, or NVML can't be had."""
    if not uuids:
        return None
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        gpus = tuple(_open(nvml, uuid) for uuid in uuids)
    except nvml.NVMLError as error:
        log.verbose(f"no GPU metrics: {error}")
        return None
    return GpuMetrics(nvml, gpus, clock, interval_ns)


def _open(nvml: Any, uuid: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    try:
        energy = nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except nvml.NVMLError:
        energy = 0
    return Gpu(uuid, handle, energy)
