"""A framework on the GPU that `standin_cuda.c` pretends: models import it as `fakelib`."""

import ctypes
import importlib
import sys

import numpy as np

_here = next(name for name in ("_charonia_child", "charonia.backends.python.child") if name in sys.modules)
dlpack = importlib.import_module(_here + ".dlpack")
datatypes = importlib.import_module(_here + ".datatypes")

DEVICE = (2, 0)
_libraries = []


def load(path="libcuda.so.1"):
    library = ctypes.CDLL(path)
    library.standin_allocate.restype = ctypes.c_uint64
    library.standin_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
    library.standin_free.argtypes = [ctypes.c_uint64]
    library.standin_free.restype = None
    _libraries[:] = [library]
    return library


def _library():
    return _libraries[0] if _libraries else load()


class Array:
    """`skip`: elements that lie before it in its allocation, as in a framework's cache; `pool`: of a kind that can't be
    given to other processes."""

    def __init__(self, array, skip=0, pool=False):
        self.shape, self.dtype = array.shape, array.dtype
        skipped = skip * array.itemsize
        self._free = _library().standin_free
        self._base = _library().standin_allocate(skipped + array.nbytes, pool)
        self.address = self._base + skipped
        ctypes.memmove(self.address, array.tobytes(), array.nbytes)

    def __del__(self):
        self._free(self._base)

    def __dlpack_device__(self):
        return DEVICE

    def __dlpack__(self, **_):
        datatype = datatypes.name_of_type(self.dtype)
        return dlpack.export_memory(self.address, DEVICE, self.shape, self.dtype, datatype, self)


def look(tensor):
    """A tensor's elements, as code on the device sees them."""
    datatype, (shape, memory) = dlpack.take("looked at", tensor)
    data = ctypes.string_at(memory.address, memory.nbytes)
    return np.frombuffer(data, datatypes.TYPE_OF_NAME[datatype]).reshape(shape)


def downloads():
    return _library().standin_downloads()


def opened():
    return _library().standin_opened()
