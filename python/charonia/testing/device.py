"""A device that is none: memory that counts how often it is copied to the host, and a backend that computes there."""

import threading
from typing import TYPE_CHECKING

import numpy as np

from charonia.backends.base import Batch, InstanceSpec, ModelContext
from charonia.backends.python.child import fake_device
from charonia.backends.python.child.devices import Local
from charonia.core.datatypes import DATATYPES
from charonia.core.request import InferRequest
from charonia.core.tensor import Array, DeviceBuffer, Tensor

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class FakeDevice:
    """Counts what moves between it and the host in this process, since it was made. Others can open its memory.

    Attributes:
        name: what `Buffer.device` says of its memory: "fake:" and a number.
        uploads: copies from the host.
    """

    def __init__(self, name: str = "fake:0") -> None:
        self.name = name
        self.uploads = 0
        self._before = fake_device.downloads
        self._lock = threading.Lock()

    @property
    def downloads(self) -> int:
        """Copies to the host."""
        return fake_device.downloads - self._before

    def place(self, array: Array) -> DeviceBuffer:
        """Device memory with what was computed there."""
        made = fake_device.upload(array)
        return Local(self.name, made.address, array.nbytes, made)

    def array(self, tensor: Tensor) -> Array:
        """A tensor's elements for code that runs on the device, copied there if need be. Keep the tensor meanwhile."""
        dtype = DATATYPES[tensor.datatype].numpy
        buffer = tensor.buffer
        if buffer.device != self.name:
            with self._lock:
                self.uploads += 1
            return np.array(tensor.numpy())
        made: Array = fake_device.view(buffer.address, buffer.nbytes).view(dtype).reshape(tensor.shape)  # type: ignore[attr-defined]
        return made


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
        made = self._device.place(self._device.array(tensor) + 1)
        return Tensor(target, tensor.datatype, tensor.shape, made)

    def close(self) -> None:
        """Nothing is held."""
