"""A framework that computes on the fake device, as PyTorch does on a GPU: models import it as `fakelib`."""

import ctypes
import importlib
import sys

_here = next(name for name in ("_charonia_child", "charonia.backends.python.child") if name in sys.modules)
dlpack = importlib.import_module(_here + ".dlpack")
datatypes = importlib.import_module(_here + ".datatypes")
fake_device = importlib.import_module(_here + ".fake_device")

DEVICE = (12, 0)


class Array:
    """What was computed on the device. `strides`: said of the memory, in elements; none for C order."""

    strides = None

    def __init__(self, array):
        self.memory = fake_device.upload(array)
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self):
        return DEVICE

    def __dlpack__(self, **_):
        datatype = datatypes.name_of_type(self.dtype)
        owner = [self.memory]
        capsule = dlpack.export_memory(self.memory.address, DEVICE, self.shape, self.dtype, datatype, owner)
        if self.strides:
            steps = (ctypes.c_int64 * len(self.strides))(*self.strides)
            owner.append(steps)
            address = dlpack._api.PyCapsule_GetPointer(capsule, b"dltensor")
            managed = dlpack._ManagedTensor.from_address(address)
            managed.dl_tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
        return capsule


def look(tensor):
    """A tensor's elements, as code on the device sees them."""
    assert tensor.__dlpack_device__() == DEVICE
    datatype, (shape, memory) = dlpack.take("looked at", tensor)
    return fake_device.view(memory.address, memory.nbytes).view(datatypes.TYPE_OF_NAME[datatype]).reshape(shape).copy()


def downloads():
    """Copies to the host that this process has made."""
    return fake_device.downloads


def allocated():
    """How much device memory of this process is in use, in pieces."""
    return len(fake_device._allocated)


def opened():
    """How much of other processes' device memory is open here, in pieces."""
    return len(fake_device._opened)
