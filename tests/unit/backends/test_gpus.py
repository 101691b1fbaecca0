"""The visible GPUs, without a driver."""

import sys
from typing import Any

import pytest

from charonia.backends.gpus import Gpu, select_visible, visible_gpus

THREE = [Gpu(index, f"GPU-{index}{index}", "T", 1 << 34) for index in range(3)]


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-00", "GPU-11", "GPU-22"]),
        ("", []),
        ("2,0", ["GPU-22", "GPU-00"]),
        ("1,9,0", ["GPU-11"]),
        ("-1", []),
        ("GPU-2", ["GPU-22"]),
        ("GPU-", []),
    ],
)
def test_the_order_and_choice_of_cuda(visible: str | None, uuids: list[str]) -> None:
    chosen = select_visible(THREE, visible)
    assert [gpu.uuid for gpu in chosen] == uuids
    assert [gpu.index for gpu in chosen] == list(range(len(uuids)))


class _Nvml:
    """The few functions of pynvml that are used."""

    ended = False

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.ended = True

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802
        return b"GPU-%d" % handle

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "A card"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return type("Info", (), {"total": 1 << 30})


def test_what_the_management_library_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = _Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == (Gpu(0, "GPU-0", "A card", 1 << 30), Gpu(1, "GPU-1", "A card", 1 << 30))
    assert nvml.ended


def test_none_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert visible_gpus() == ()
