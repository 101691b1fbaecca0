"""A device that is none: memory that counts how often it is copied to the host, and a backend that computes there."""

import threading
from typing import TYPE_CHECKING

import numpy as np

from charonia.backends.base import Batch, InstanceSpec, ModelContext
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, Tensor

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class FakeDevice:
    """Counts what moves between it and the host.

    Attributes:
        name: what `Buffer.device` says of its memory.
        downloads: copies to the host; uploads: copies from there.
    """

    def __init__(self, name: str = "fake:0") -> None:
        self.name = name
        self.downloads = 0
        self.uploads = 0
        self._lock = threading.Lock()

    def download(self, array: Array) -> bytes:
        """The host's copy of an array on the device."""
        with self._lock:
            self.downloads += 1
        return array.tobytes()

    def upload(self, tensor: Tensor) -> "FakeDeviceBuffer":
        """A copy of the tensor on the device; its own buffer if it is there already."""
        if isinstance(tensor.buffer, FakeDeviceBuffer) and tensor.buffer.on is self:
            return tensor.buffer
        with self._lock:
            self.uploads += 1
        return FakeDeviceBuffer(self, np.array(tensor.numpy()))


class FakeDeviceBuffer:
    """A Buffer in the memory of a fake device. `array` is for code that "runs on the device"."""

    owned = True

    def __init__(self, device: FakeDevice, array: Array) -> None:
        self.on = device
        self.array = array
        self.nbytes = array.nbytes

    @property
    def device(self) -> str:
        return self.on.name

    def host(self) -> bytes:
        return self.on.download(self.array)


class FakeDeviceBackend:
    """Adds 1 to each input and answers output n with input n, all of it on the device. For numeric datatypes."""

    name = "fake_device"

    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def complete_config(self, context: ModelContext) -> "ModelConfig":
        return context.config

    def load(self, context: ModelContext) -> "FakeDeviceModel":
        names = zip(context.config.input, context.config.output, strict=False)
        return FakeDeviceModel(self._device, [(source.name, target.name) for source, target in names])

    def close(self) -> None:
        """Nothing is held."""


class FakeDeviceModel:
    """Its one kind of instance is the model itself: it keeps no state."""

    healthy = True

    def __init__(self, device: FakeDevice, pairs: list[tuple[str, str]]) -> None:
        self._device = device
        self._pairs = pairs

    def create_instance(self, spec: InstanceSpec) -> "FakeDeviceModel":
        return self

    def start(self, batch: Batch) -> None:
        for request in batch.requests:
            batch.respond(request, [self._output(request, *pair) for pair in self._pairs if pair[0] in request.inputs])

    def _output(self, request: InferRequest, source: str, target: str) -> Tensor:
        tensor = request.inputs[source]
        array = self._device.upload(tensor).array
        return Tensor(target, tensor.datatype, tensor.shape, FakeDeviceBuffer(self._device, array + 1))

    def close(self) -> None:
        """Nothing is held."""
