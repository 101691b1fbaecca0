"""Which GPUs this process may use."""

import importlib
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Gpu:
    """`index` as CUDA counts the visible devices (what `instance_group.gpus` names); `uuid` as in `GPU-…`."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


def visible_gpus() -> tuple[Gpu, ...]:
    """The GPUs that NVIDIA's management library reports, in CUDA's order, reduced to CUDA_VISIBLE_DEVICES.

    Empty without a driver or without the package nvidia-ml-py (extra `gpu`): a server without GPUs needs neither.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        return ()
    try:
        found = [_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except Exception:
        return ()
    finally:
        nvml.nvmlShutdown()
    return select_visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))


def select_visible(found: list[Gpu], visible: str | None) -> tuple[Gpu, ...]:
    """`found` as CUDA_VISIBLE_DEVICES shows them, numbered anew; like CUDA, it stops at the first unknown entry."""
    if visible is None:
        return tuple(found)
    chosen: list[Gpu] = []
    for entry in visible.split(","):
        gpu = _named(found, entry.strip())
        if gpu is None:
            break
        chosen.append(Gpu(len(chosen), gpu.uuid, gpu.name, gpu.memory_bytes))
    return tuple(chosen)


def _named(found: list[Gpu], entry: str) -> Gpu | None:
    if entry.isdecimal():
        return found[int(entry)] if int(entry) < len(found) else None
    matches = [gpu for gpu in found if entry and gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    return Gpu(index, _text(nvml.nvmlDeviceGetUUID(handle)), _text(nvml.nvmlDeviceGetName(handle)), memory)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
