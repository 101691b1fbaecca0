"""A stand-in for NVML, NVIDIA's management library, on machines without a GPU."""

from types import SimpleNamespace


class NVMLError(Exception):
    pass


class FakeNvml:
    """Two GPUs; the second can't tell its power."""

    NVMLError = NVMLError

    def __init__(self):
        self.reads = 0

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlShutdown(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, number):  # noqa: N802
        return number

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return ("GPU-a", "GPU-b")[handle]

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return "A card"

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        handles = {b"GPU-a": 0, b"GPU-b": 1}
        if uuid not in handles:
            raise NVMLError
        return handles[uuid]

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
